// Generates help texts and docs/cli.md from the options that the parser itself uses.
#pragma once

#include <string>

#include "tools/base/command.h"

namespace moepack::cli {

// What moepack does and which commands it has, by section.
std::string OverviewText(Commands commands);
// For -h, one screen: usage, examples, arguments, and its essential options.
std::string HelpText(const Command& command);
// For --help: examples first, then usage, description, arguments, and all options by section.
std::string FullHelpText(const Command& command);
// "usage: moepack plan [options] SRC --groups N".
std::string UsageLine(const Command& command, const CLI::App& app);
// The reference part of docs/cli.md: every command by section, then the exit status.
std::string MarkdownReference(Commands commands);
std::string VersionText();

}  // namespace moepack::cli
