#include "tools/command_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "libshard/base/text/text.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

OptionHelp Describe(const CLI::Option& option) {
  OptionHelp help;
  help.text = option.get_description();
  help.section = option.get_group();
  help.value = option.get_type_name();
  help.offered = OfferedWords(option);
  help.positional = option.get_positional();
  help.required = option.get_required();
  help.takes_value = option.get_items_expected_max() > 0;
  if (help.positional) {
    help.label = option.get_name(true);
    help.names = {help.label};
    if (option.get_items_expected_max() > 1) help.label += "...";
    return help;
  }
  for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) help.names.push_back("--" + name);
  help.label = moepack::Join(help.names, ", ");
  if (!help.value.empty()) help.label += " " + help.value;
  return help;
}

// The sentences of a text, each with its full stop.
std::vector<std::string> Sentences(std::string_view text) {
  std::vector<std::string> sentences;
  for (size_t end = text.find(". "); end != text.npos; end = text.find(". ")) {
    sentences.emplace_back(text.substr(0, end + 1));
    text.remove_prefix(end + 2);
  }
  sentences.emplace_back(text);
  return sentences;
}

}  // namespace

bool OptionHelp::IsNamed(std::string_view name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<OptionHelp> DescribeAll(const CLI::App& app) {
  const std::array<const CLI::Option*, 2> help = {app.get_help_ptr(), app.get_help_all_ptr()};
  std::vector<OptionHelp> all;
  for (const CLI::Option* option : app.get_options()) {
    if (option != help[0] && option != help[1]) all.push_back(Describe(*option));
  }
  std::stable_partition(all.begin(), all.end(),
                        [](const OptionHelp& option) { return option.positional; });
  for (const CLI::Option* option : help) {
    if (option != nullptr) all.push_back(Describe(*option));
  }
  return all;
}

BoundCommand::BoundCommand(const Command& command) {
  StartSection(app, "General");
  AddHelpOptions(app);
  command.bind(app);
  AddSharedOptions(app, shared);
  options = DescribeAll(app);
}

std::string ShortText(const OptionHelp& option, const std::vector<OptionHelp>& all) {
  const std::vector<std::string> sentences = Sentences(option.text);
  const auto tells_apart = [&](const std::string& sentence) {
    return std::none_of(all.begin(), all.end(), [&](const OptionHelp& other) {
      const std::vector<std::string> others = Sentences(other.text);
      return other.label != option.label &&
             std::find(others.begin(), others.end(), sentence) != others.end();
    });
  };
  const auto found = std::find_if(sentences.begin(), sentences.end(), tells_apart);
  return found == sentences.end() ? sentences.front() : *found;
}

}  // namespace moepack::cli
