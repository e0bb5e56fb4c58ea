// Writes one task's share of an output. Tasks need no coordinator: each knows its number, divides
// the work on its own, and writes into a directory of its own, which `join` reads.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "libshard/tasks/divide.h"
#include "manifest/write/draft.h"

namespace moepack::manifest {

struct TaskOptions {
  TaskNumber number;
  PackOptions pack;
  std::string stem;    // of a GGUF: `out` without its extension
  bool force = false;  // redo what already exists
  bool dry_run = false;
};

struct TaskReport {
  std::string directory;
  TaskNumber number;
  TaskLoad load;
  double imbalance = 1;    // the most work of any task, relative to the mean
  uint64_t bytes = 0;      // of the task's files
  bool was_there = false;  // an earlier run had done this task
  bool outrun = false;     // another process did it while this one did
  PackResult pack;
  std::vector<std::string> warnings;  // about what was left on disk
};

// Writes to a directory of TasksDirectory(out), which appears when it is whole. A task that was
// killed goes on where it stopped. One that another process ends first, which takes a file system
// without locks, is given up in favour of the other's. One that is done already is left as it is;
// one of other work (another plan, recipe, source) is refused without `force`. The work of all
// tasks together is that of one run that writes `draft`.
Result<TaskReport> WriteTask(Draft draft, const std::string& out, const TaskOptions& options);

}  // namespace moepack::manifest
