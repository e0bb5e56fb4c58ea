// --task: which share of the work this process does. With `auto`, a scheduler's variables say it.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <optional>
#include <string>

#include "libshard/base/result.h"
#include "libshard/tasks/divide.h"

namespace moepack::cli {

struct TaskArguments {
  std::string text;  // "3/16", or "auto"; "" for none
  bool no_task = false;
};
void AddTask(CLI::App& app, TaskArguments& arguments);

// A task, and which variable names it; "" for --task.
struct ChosenTask {
  TaskNumber number;
  std::string variable = {};
};
// Looks up an environment variable; null if it is not set.
using Lookup = std::function<const char*(const char*)>;
// No value for a run that does all the work: without --task, whatever the variables say, and with
// `auto` for the only process of a launcher. kInvalidArgument if `auto` finds no variables, or they
// do not say which task of how many this is, or contradict each other.
Result<std::optional<ChosenTask>> FindTask(const TaskArguments& arguments, const Lookup& lookup);
// A warning for a run that does all the work, if a variable says that it is one of several tasks;
// "" if none does, or --no-task was given.
std::string TaskWarning(const TaskArguments& arguments, const Lookup& lookup);
// FindTask for the environment of this process, with the warning on stderr. A task named by a
// variable is noted there.
Result<std::optional<TaskNumber>> ChooseTask(const TaskArguments& arguments);

}  // namespace moepack::cli
