#include "tools/complete.h"

#include <algorithm>
#include <span>

#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"
#include "manifest/document/manifest.h"
#include "tools/command_options.h"

namespace moepack::cli {
namespace {

using Words = std::span<const std::string>;

// The lines for words that continue what was typed.
class Offers {
 public:
  explicit Offers(std::string_view typed) : typed_(typed) {}

  void Add(std::string_view word, std::string_view meaning = "") {
    if (word.starts_with(typed_)) text_ += Cat(word, meaning.empty() ? "" : "\t", meaning, "\n");
  }
  std::string Text() { return std::move(text_); }

 private:
  std::string_view typed_;
  std::string text_;
};

std::string CommandsOf(Commands commands, std::string_view typed, bool after_help) {
  Offers offers(typed);
  for (const ListedCommand& listed : commands)
    offers.Add(listed.command->name, listed.command->summary);
  if (after_help) {
    if (typed.starts_with('-')) offers.Add("--markdown", "Print the whole reference");
    return offers.Text();
  }
  offers.Add("help", "Explains one command, or lists all");
  offers.Add("version", "Prints the version");
  if (!typed.starts_with('-')) return offers.Text();
  for (const char* option : {"-h", "--help"}) offers.Add(option, "List the commands");
  for (const char* option : {"-V", "--version"}) offers.Add(option, "Print the version");
  return offers.Text();
}

// The words of a command line, sorted by what they are.
struct Typed {
  std::vector<std::string> arguments;
  const OptionHelp* option = nullptr;  // whose value is being typed
  bool has_no_overlay = false;         // the command has --no-overlay, and no `--overlay none`
};

const OptionHelp* FindOption(const std::vector<OptionHelp>& options, std::string_view word) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const OptionHelp& option) {
    return !option.positional && option.IsNamed(word);
  });
  return found == options.end() ? nullptr : &*found;
}

// `before` are the words before the one that is being typed. bash makes a word of the "=" in
// --format=gguf.
Typed Sort(Words before, const std::vector<OptionHelp>& options) {
  Typed typed;
  typed.has_no_overlay = FindOption(options, "--no-overlay") != nullptr;
  for (const std::string& word : before) {
    if (word == "=") continue;
    const bool value = typed.option != nullptr;
    typed.option = nullptr;
    if (value) continue;
    const OptionHelp* const option = FindOption(options, word);
    if (option != nullptr && option->takes_value) typed.option = option;
    if (!word.starts_with("-")) typed.arguments.push_back(word);
  }
  return typed;
}

// Groups or overlays of the distribution that the command line names first.
std::vector<std::string> WordsOfDistribution(const OptionHelp& option, const Typed& before) {
  const bool groups = option.IsNamed("--group"), overlays = option.IsNamed("--overlay");
  if (before.arguments.empty() || !(groups || overlays)) return {};
  const auto manifest = manifest::ReadManifest(before.arguments.front());
  if (!manifest) return {};
  std::vector<std::string> words;
  if (groups) {
    for (size_t group = 0; group < manifest->plan.groups.size(); ++group)
      words.push_back(std::to_string(group));
    return words;
  }
  for (const OverlayPlan& overlay : manifest->plan.overlays) words.push_back(overlay.version);
  if (!before.has_no_overlay) words.emplace_back(kNoOverlay);
  return words;
}

// A list "Q8_0,Q4" is continued at its last word.
std::string ValuesOf(const OptionHelp& option, const Typed& before, std::string_view typed) {
  std::vector<std::string> words = option.offered;
  if (words.empty()) words = WordsOfDistribution(option, before);
  const size_t comma = option.value.ends_with(",...") ? typed.rfind(',') : typed.npos;
  const std::string_view start = comma == typed.npos ? "" : typed.substr(0, comma + 1);
  Offers offers(typed);
  for (const std::string& word : words) offers.Add(Cat(start, word));
  return offers.Text();
}

std::string ArgumentsOf(const std::vector<OptionHelp>& options, const Typed& typed,
                        std::string_view word) {
  std::vector<const OptionHelp*> arguments;
  for (const OptionHelp& option : options) {
    if (option.positional) arguments.push_back(&option);
  }
  const size_t place = typed.arguments.size();
  return place < arguments.size() ? ValuesOf(*arguments[place], typed, word) : "";
}

std::string OptionsOf(const std::vector<OptionHelp>& options, const Typed& before,
                      std::string_view typed) {
  const size_t equals = typed.find('=');
  if (equals != typed.npos) {
    const OptionHelp* const option = FindOption(options, typed.substr(0, equals));
    if (option == nullptr || !option->takes_value) return "";
    const std::string values = ValuesOf(*option, before, typed.substr(equals + 1));
    std::string lines;
    for (const std::string& value : Split(values, '\n')) {
      if (!value.empty()) lines += Cat(typed.substr(0, equals + 1), value, "\n");
    }
    return lines;
  }
  Offers offers(typed);
  for (const OptionHelp& option : options) {
    std::string meaning = ShortText(option, options);
    if (meaning.ends_with('.')) meaning.pop_back();
    for (const std::string& name : option.names) {
      if (!option.positional) offers.Add(name, meaning);
    }
  }
  return offers.Text();
}

}  // namespace

std::string CompletionText(Commands commands, const std::vector<std::string>& words) {
  if (words.empty()) return "";
  const std::string& first = words.front();
  if (words.size() == 1) return CommandsOf(commands, first, false);
  const std::string typed = words.back() == "=" ? "" : words.back();
  if (first == "help" || first == "-h" || first == "--help")
    return words.size() == 2 ? CommandsOf(commands, typed, true) : "";
  const Command* const command = FindCommand(commands, first);
  if (command == nullptr) return "";
  const BoundCommand bound(*command);
  const Typed before = Sort(Words(words).subspan(1, words.size() - 2), bound.options);
  if (before.option != nullptr) return ValuesOf(*before.option, before, typed);
  return typed.starts_with('-') ? OptionsOf(bound.options, before, typed)
                                : ArgumentsOf(bound.options, before, typed);
}

}  // namespace moepack::cli
