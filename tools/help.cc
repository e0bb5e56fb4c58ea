#include "tools/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

constexpr size_t kWidth = 100;

struct OptionHelp {
  std::string label;  // "-o, --output DIR"
  std::string text;
  std::string section;
  bool positional = false;
  bool required = false;
};

OptionHelp Describe(const CLI::Option& option) {
  OptionHelp help{"", option.get_description(), option.get_group(), option.get_positional(),
                  option.get_required()};
  const std::string value = option.get_type_name();
  if (help.positional) {
    help.label = option.get_name(true);
    if (option.get_items_expected_max() > 1) help.label += "...";
    return help;
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  help.label = moepack::Join(names, ", ");
  if (!value.empty()) help.label += " " + value;
  return help;
}

// Every option of a command, arguments first, --help last.
std::vector<OptionHelp> DescribeAll(const CLI::App& app) {
  std::vector<OptionHelp> all;
  for (const CLI::Option* option : app.get_options()) {
    if (option != app.get_help_ptr()) all.push_back(Describe(*option));
  }
  std::stable_partition(all.begin(), all.end(),
                        [](const OptionHelp& help) { return help.positional; });
  if (app.get_help_ptr() != nullptr) all.push_back(Describe(*app.get_help_ptr()));
  return all;
}

// A command's parser, made only to read its options.
struct BoundCommand {
  explicit BoundCommand(const Command& command) {
    StartSection(app, "General");
    app.set_help_flag("-h,--help", "Print this help.");
    command.bind(app);
    AddSharedOptions(app, shared);
    options = DescribeAll(app);
  }
  CLI::App app;
  SharedOptions shared;
  std::vector<OptionHelp> options;
};

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
      "\n`moepack help COMMAND` explains one command and starts with two examples.\n"
      "`moepack --version` prints the version, `moepack help --markdown` the whole reference.\n";
  return out;
}

std::string UsageLine(const Command& command, const CLI::App& app) {
  return "usage: " + Usage(command, DescribeAll(app));
}

std::string HelpText(const Command& command) {
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
