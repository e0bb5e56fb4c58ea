// A command of moepack: one file that defines a Command, its name below, and one row in main.cc.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <functional>
#include <span>

#include "libshard/base/result.h"

namespace moepack::cli {

struct Command {
  const char* name;
  const char* summary;      // one line, no full stop
  const char* description;  // a paragraph or two for the help
  // Tests run them as they are, in a clone of the repository, in the order of the list in main.cc.
  std::array<const char*, 2> examples;
  // Adds the options to `app` and returns what runs once they are parsed. The number is the exit
  // status, for results that are not an error but have a status other than 0.
  std::function<Result<int>()> (*bind)(CLI::App& app);
};

extern const Command kListTensors;
extern const Command kPlan;
extern const Command kShardExperts;
extern const Command kQuantize;
extern const Command kBuild;
extern const Command kJoin;
extern const Command kVerify;
extern const Command kDiff;
extern const Command kOverlay;
extern const Command kAssemble;
extern const Command kPublish;
extern const Command kPull;
extern const Command kLs;
extern const Command kInspect;
extern const Command kCopy;
extern const Command kTag;
extern const Command kGc;
extern const Command kKeygen;
extern const Command kSign;
extern const Command kPlace;
extern const Command kRun;
extern const Command kCheck;
extern const Command kProfile;
extern const Command kStatistics;
extern const Command kEval;
extern const Command kRefit;
extern const Command kExperiment;
extern const Command kReplay;
extern const Command kReport;

// A row of the list of commands.
struct ListedCommand {
  const char* section;  // the heading under which help lists it; rows of one section are neighbours
  const Command* command;
};
using Commands = std::span<const ListedCommand>;

// The options that every command has in addition to its own.
struct SharedOptions {
  bool quiet = false, strict = false;
};
void AddSharedOptions(CLI::App& app, SharedOptions& options);

// Null if there is no such command.
const Command* FindCommand(Commands commands, std::string_view name);

// Parses the command line, runs the command, prints errors; returns the exit status.
int RunCommandLine(Commands commands, int argc, const char* const* argv);

}  // namespace moepack::cli
