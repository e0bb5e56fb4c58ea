#include "tools/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/command_options.h"

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

// The arguments, and the command's essential options.
std::vector<const OptionHelp*> Essential(const Command& command,
                                         const std::vector<OptionHelp>& options) {
  std::vector<const OptionHelp*> found;
  for (const OptionHelp& option : options) {
    if (option.positional) found.push_back(&option);
  }
  for (const std::string_view name : command.essential) {
    for (const OptionHelp& option : options) {
      if (!name.empty() && option.IsNamed(name)) found.push_back(&option);
    }
  }
  return found;
}

// A label, and behind it a text that may have several lines.
std::string ShortEntry(const std::string& label, const std::string& text) {
  std::string lines = Wrap(text, kTextColumn, kWidth);
  const std::string start = "  " + label + "  ";
  return start.size() > kTextColumn ? "  " + label + "\n" + lines
                                    : lines.replace(0, start.size(), start);
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

std::string MarkdownTable(const OptionSection& section) {
  std::string out = Cat("| ", section.title, " | meaning |\n|---|---|\n");
  for (const OptionHelp& option : section.options) {
    out += Cat("| `", EscapeCell(option.label), "` | ", EscapeCell(option.text), " |\n");
  }
  return out + "\n";
}

// The first long name, by which the reference knows an option: "--output".
std::string LongName(const OptionHelp& option) {
  const std::string& label = option.label;
  const size_t begin = label.find("--");
  return begin == std::string::npos ? label
                                    : label.substr(begin, label.find_first_of(", ", begin) - begin);
}

// The options that several commands have with the same text. The reference lists each of them once.
// Where a name has more than one text, the one that most commands have is shared.
class SharedRows {
 public:
  explicit SharedRows(const std::deque<BoundCommand>& commands) {
    std::vector<OptionHelp> rows;
    std::map<std::pair<std::string, std::string>, int> uses;
    for (const BoundCommand& command : commands) {
      for (const OptionHelp& option : command.options) {
        if (!option.positional && ++uses[{option.label, option.text}] == 2) rows.push_back(option);
      }
    }
    std::map<std::string, OptionHelp> best;
    for (const OptionHelp& row : rows) {
      OptionHelp& known = best.try_emplace(LongName(row), row).first->second;
      if (uses[{row.label, row.text}] > uses[{known.label, known.text}]) known = row;
    }
    for (const OptionHelp& row : rows) {
      const OptionHelp& known = best.at(LongName(row));
      if (row.label == known.label && row.text == known.text) rows_.push_back(row);
    }
  }

  bool Has(const OptionHelp& option) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const OptionHelp& row) {
      return row.label == option.label && row.text == option.text;
    });
  }
  const std::vector<OptionHelp>& rows() const { return rows_; }

 private:
  std::vector<OptionHelp> rows_;
};

std::string MarkdownShared(const SharedRows& shared) {
  std::string out =
      "## Shared options\n\nSeveral commands take these with one meaning. Each command below names "
      "those that it takes.\n\n";
  for (const OptionSection& section : Sections(shared.rows())) out += MarkdownTable(section);
  return out;
}

std::string MarkdownCommand(const Command& command, const BoundCommand& bound,
                            const SharedRows& shared) {
  std::string out = Cat("### ", command.name, "\n\n", command.summary, ".\n\n```sh\n",
                        command.examples[0], "\n", command.examples[1], "\n```\n\n");
  out += Wrap(command.description, 0, kWidth);
  out += Cat("\nUsage: `", Usage(command, bound.options), "`\n\n");
  std::string names;
  for (OptionSection& section : Sections(bound.options)) {
    std::erase_if(section.options, [&](const OptionHelp& option) {
      const bool is_shared = !option.positional && shared.Has(option);
      if (is_shared) names += Cat(names.empty() ? "" : ", ", "`", LongName(option), "`");
      return is_shared;
    });
    if (!section.options.empty()) out += MarkdownTable(section);
  }
  return out + Wrap(Cat("[Shared](#shared-options): ", names), 0, kWidth) + "\n";
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
  return Cat(out, "\n`moepack ", command.name, " --help` explains all of its ",
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
  std::deque<BoundCommand> bound;
  for (const ListedCommand& listed : commands) bound.emplace_back(*listed.command);
  const SharedRows shared(bound);
  std::string out = MarkdownShared(shared);
  std::string_view section;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (section != commands[i].section) out += Cat("## ", commands[i].section, "\n\n");
    section = commands[i].section;
    out += MarkdownCommand(*commands[i].command, bound[i], shared);
  }
  out += "## Exit status\n\n| status | meaning |\n|---|---|\n";
  for (const ExitMeaning& exit : kExitMeanings) {
    out += Cat("| ", exit.status, " | ", exit.meaning, " |\n");
  }
  return out;
}

std::string VersionText() { return Cat("moepack ", ToolVersion(), "\n"); }

}  // namespace moepack::cli
