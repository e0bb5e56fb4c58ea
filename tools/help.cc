#include "tools/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "libshard/base/text/text.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/command_options.h"
#include "tools/essential_options.h"

namespace moepack::cli {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kTextColumn = 28;  // of the short help

std::string Usage(const Command& command, const std::vector<OptionHelp>& options) {
  std::string usage = Cat("moepack ", command.name);
  for (const OptionHelp& option : options) {
    if (option.positional) usage += " " + option.label;
  }
  for (const OptionHelp& option : options) {
    // The last name is the long one.
    const size_t last = option.label.rfind(", ");
    if (option.required && !option.positional)
      usage += " " + option.label.substr(last == std::string::npos ? 0 : last + 2);
  }
  return usage + " [options]";
}

struct OptionSection {
  std::string title;
  std::vector<OptionHelp> options;
};

// The arguments, then every section that has options.
std::vector<OptionSection> Sections(const std::vector<OptionHelp>& options) {
  std::vector<OptionSection> sections = {{"Arguments", {}}};
  for (const std::string_view title : kSectionTitles) sections.push_back({std::string(title), {}});
  for (const OptionHelp& option : options) {
    const auto of_option = [&](const OptionSection& section) {
      return section.title == (option.positional ? "Arguments" : option.section);
    };
    std::find_if(sections.begin(), sections.end(), of_option)->options.push_back(option);
  }
  std::erase_if(sections, [](const OptionSection& section) { return section.options.empty(); });
  return sections;
}

// The arguments, and the options in the order of kEssentialOptions.
std::vector<const OptionHelp*> Essential(const Command& command,
                                         const std::vector<OptionHelp>& options) {
  std::vector<const OptionHelp*> found;
  for (const OptionHelp& option : options) {
    if (option.positional) found.push_back(&option);
  }
  for (const EssentialOptions& row : kEssentialOptions) {
    if (row.command != command.name) continue;
    for (const std::string_view name : row.options) {
      for (const OptionHelp& option : options) {
        if (!name.empty() && option.IsNamed(name)) found.push_back(&option);
      }
    }
  }
  return found;
}

// A label, and behind it a text that may have several lines.
std::string ShortEntry(const std::string& label, const std::string& text) {
  std::string lines = Wrap(text, kTextColumn, kWidth);
  const std::string start = "  " + label + "  ";
  return start.size() > kTextColumn ? start + "\n" + lines : lines.replace(0, start.size(), start);
}

// ", which is also called push"; "" for a command with one name.
std::string AliasText(const Command& command) {
  for (const Alias& alias : kAliases) {
    if (alias.command == command.name) return Cat("; `moepack ", alias.name, "` is the same");
  }
  return "";
}

std::string EscapeCell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string MarkdownCommand(const Command& command) {
  const BoundCommand bound(command);
  std::string out = Cat("### ", command.name, "\n\n", command.summary, ".\n\n```sh\n",
                        command.examples[0], "\n", command.examples[1], "\n```\n\n");
  out += Wrap(command.description, 0, kWidth);
  out += Cat("\nUsage: `", Usage(command, bound.options), "`\n\n");
  for (const OptionSection& section : Sections(bound.options)) {
    out += Cat("| ", section.title, " | meaning |\n|---|---|\n");
    for (const OptionHelp& option : section.options) {
      out += Cat("| `", EscapeCell(option.label), "` | ", EscapeCell(option.text), " |\n");
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string OverviewText(Commands commands) {
  std::string out =
      "moepack splits Mixture-of-Experts checkpoints so that several machines can serve them:\n"
      "a trunk stored once, one group of experts per node, and a small overlay on every node.\n\n"
      "usage: moepack COMMAND [options]\n";
  TableColumns columns({"", ""});
  const auto cells = [](const Command& command) {
    return std::array<std::string_view, 2>{command.name, command.summary};
  };
  for (const ListedCommand& listed : commands) columns.Measure(cells(*listed.command));
  std::string_view section;
  for (const ListedCommand& listed : commands) {
    if (section != listed.section) out += Cat("\n", listed.section, ":\n");
    section = listed.section;
    out += columns.Line(cells(*listed.command), 2);
  }
  out +=
      "\n`moepack COMMAND -h` shows two examples and the options that matter most, `moepack help\n"
      "COMMAND` all of them. `moepack version` prints the version, `moepack completion SHELL` "
      "what\n"
      "completes these words in a shell, `moepack help --markdown` the whole reference.\n";
  return out;
}

std::string UsageLine(const Command& command, const CLI::App& app) {
  return "usage: " + Usage(command, DescribeAll(app));
}

std::string HelpText(const Command& command) {
  const BoundCommand bound(command);
  std::string out = Cat(command.summary, ".\n\nusage: ", Usage(command, bound.options), "\n\n  ",
                        command.examples[0], "\n  ", command.examples[1], "\n\n");
  for (const OptionHelp* option : Essential(command, bound.options))
    out += ShortEntry(option->label, ShortText(*option, bound.options));
  return Cat(out, "\n`moepack ", command.name, " --help` explains the command and all of its ",
             Plural(bound.options.size(), "option"), AliasText(command), ".\n");
}

std::string FullHelpText(const Command& command) {
  const BoundCommand bound(command);
  std::string out =
      Cat("Examples:\n  ", command.examples[0], "\n  ", command.examples[1],
          "\n\nusage: ", Usage(command, bound.options), "\n\n", command.summary, ".\n\n");
  out += Wrap(command.description, 0, kWidth);
  for (const OptionSection& section : Sections(bound.options)) {
    out += Cat("\n", section.title, ":\n");
    for (const OptionHelp& option : section.options) {
      out += "  " + option.label + "\n" + Wrap(option.text, 6, kWidth);
    }
  }
  return out;
}

std::string MarkdownReference(Commands commands) {
  std::string out;
  std::string_view section;
  for (const ListedCommand& listed : commands) {
    if (section != listed.section) out += Cat("## ", listed.section, "\n\n");
    section = listed.section;
    out += MarkdownCommand(*listed.command);
  }
  out += "## Exit status\n\n| status | meaning |\n|---|---|\n";
  for (const ExitMeaning& exit : kExitMeanings) {
    out += Cat("| ", exit.status, " | ", exit.meaning, " |\n");
  }
  return out;
}

std::string VersionText() { return "moepack " MOEPACK_VERSION "\n"; }

}  // namespace moepack::cli
