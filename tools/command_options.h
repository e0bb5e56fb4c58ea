// The options of a command, read from its parser: what help and completion are made of.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/base/command.h"

namespace moepack::cli {

struct OptionHelp {
  std::vector<std::string> names;  // "-o", "--output"; that of an argument has no dash
  std::string label;               // "-o, --output DIR"
  std::string text;
  std::string section;
  std::string value;                 // "DIR"; "" for a flag
  std::vector<std::string> offered;  // words that shells offer as values
  bool positional = false;
  bool required = false;
  bool takes_value = false;

  bool IsNamed(std::string_view name) const;
};

// Every option of a parser, arguments first, those that ask for help last.
std::vector<OptionHelp> DescribeAll(const CLI::App& app);

// A command's parser, made only to read its options.
struct BoundCommand {
  explicit BoundCommand(const Command& command);

  CLI::App app;
  SharedOptions shared;
  std::vector<OptionHelp> options;
};

// The first sentence of an option's text that tells it apart from the others of its command.
std::string ShortText(const OptionHelp& option, const std::vector<OptionHelp>& all);

}  // namespace moepack::cli
