// A command of moepack: one file that defines a Command, and one row in the list below.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <functional>
#include <span>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::cli {

struct Command {
  const char* name;
  const char* summary;      // one line, no full stop
  const char* description;  // a paragraph or two for the help
  // Tests run them as they are, in a clone of the repository, in the order of the list below.
  std::array<const char*, 2> examples;
  // The options that matter most, by their long names in the order in which -h shows them; the rest
  // is empty. What every command has is not among them.
  std::array<std::string_view, 10> essential;
  // Adds the options to `app` and returns what runs once they are parsed. The number is the exit
  // status, for results that are not an error but have a status other than 0.
  std::function<Result<int>()> (*bind)(CLI::App& app);
};

// All commands, in the order in which help lists them, under its headings.
#define SHARD_COMMANDS(ROW)                \
  ROW("Look and plan", kListTensors)       \
  ROW("Look and plan", kProfile)           \
  ROW("Look and plan", kStatistics)        \
  ROW("Look and plan", kReplay)            \
  ROW("Look and plan", kPlan)              \
  ROW("Split and quantize", kShardExperts) \
  ROW("Split and quantize", kQuantize)     \
  ROW("Split and quantize", kBuild)        \
  ROW("Split and quantize", kJoin)         \
  ROW("Split and quantize", kRefit)        \
  ROW("Split and quantize", kOverlay)      \
  ROW("Split and quantize", kAssemble)     \
  ROW("Check and compare", kVerify)        \
  ROW("Check and compare", kDiff)          \
  ROW("Check and compare", kCheck)         \
  ROW("Publish and fetch", kPublish)       \
  ROW("Publish and fetch", kPull)          \
  ROW("Publish and fetch", kCopy)          \
  ROW("Publish and fetch", kLs)            \
  ROW("Publish and fetch", kInspect)       \
  ROW("Publish and fetch", kKeygen)        \
  ROW("Publish and fetch", kSign)          \
  ROW("Maintain registries", kTag)         \
  ROW("Maintain registries", kGc)          \
  ROW("Run and measure", kPlace)           \
  ROW("Run and measure", kRun)             \
  ROW("Run and measure", kEval)            \
  ROW("Run and measure", kExperiment)      \
  ROW("Run and measure", kReport)          \
  ROW("Set up", kCompletion)

#define SHARD_DECLARE_COMMAND(section, name) extern const Command name;
SHARD_COMMANDS(SHARD_DECLARE_COMMAND)
#undef SHARD_DECLARE_COMMAND

// A row of the list of commands.
struct ListedCommand {
  const char* section;  // the heading under which help lists it; rows of one section are neighbours
  const Command* command;
};
using Commands = std::span<const ListedCommand>;
#define SHARD_LIST_COMMAND(section, name) {section, &::moepack::cli::name},
inline constexpr ListedCommand kListedCommands[] = {SHARD_COMMANDS(SHARD_LIST_COMMAND)};
#undef SHARD_LIST_COMMAND

// Other names of commands, which people type who know other programs.
struct Alias {
  std::string_view name, command;
};
inline constexpr Alias kAliases[] = {
    {"push", "publish"}, {"split", "shard-experts"}, {"info", "inspect"}};

// The options that every command has in addition to its own.
struct SharedOptions {
  bool quiet = false, strict = false;
};
void AddSharedOptions(CLI::App& app, SharedOptions& options);
// -h and --help, to be added before all others.
void AddHelpOptions(CLI::App& app);

// By name or alias; null if there is no such command.
const Command* FindCommand(Commands commands, std::string_view name);

// Parses the command line, runs the command, prints errors; returns the exit status.
int RunCommandLine(Commands commands, int argc, const char* const* argv);

}  // namespace moepack::cli
