// One task of a command that writes: the run with its progress, and its report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/tasks/task_write.h"
#include "tools/reports/runs/calibrate_report.h"

namespace moepack::cli {

struct TaskRun {
  std::string out;
  manifest::TaskOptions task;
  bool json = false;
  std::optional<CalibrateNeeds> needs = std::nullopt;  // of a calibration, with --dry-run
};
// Writes the share of a draft and reports it; the number is the exit status.
Result<int> RunTask(manifest::Draft draft, const TaskRun& run);

// The command that joins the tasks of an output: "moepack join OUT.tasks -o OUT".
std::string JoinCommandText(const std::string& out);

// kInvalidArgument: an option that needs the whole output, which no task has.
Error NotInTask(const char* option, const char* hint);

}  // namespace moepack::cli
