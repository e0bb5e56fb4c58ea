// --task: which share of the work this process does. Schedulers set it in environment variables.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <optional>
#include <string>

#include "libshard/base/result.h"
#include "libshard/tasks/divide.h"

namespace moepack::cli {

struct TaskArguments {
  std::string text;  // "3/16"; "" for none
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
// No value for a run that does all the work. kInvalidArgument if the variables do not say which
// task of how many this is, or contradict each other.
Result<std::optional<ChosenTask>> FindTask(const TaskArguments& arguments, const Lookup& lookup);
// The same for the environment of this process. A task named by a variable is noted on stderr.
Result<std::optional<TaskNumber>> ChooseTask(const TaskArguments& arguments);

}  // namespace moepack::cli
