// Joins what the tasks of one job have written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/write/join.h"

namespace moepack::manifest {

// The task directories that `inputs` name: a task's own, or one that contains some. Empty if none
// of them is either. kInvalidArgument if some are and others are not.
Result<std::vector<std::string>> FindTasks(const std::vector<std::string>& inputs);

struct TaskJoinReport {
  uint32_t tasks = 0;
  std::optional<Manifest> manifest;     // no value: a GGUF
  std::vector<JoinReport::File> files;  // that were (or would be) written
  std::vector<std::string> absent;      // as in JoinReport::absent
  std::vector<std::string> warnings;    // about what was left on disk
  uint64_t total_bytes() const;
};

// Writes at `out` what a single run doing the work of all tasks would write: a directory, or a GGUF
// with the other files of its set beside it. A task may be given several times if it is the same.
// kNotFound names the missing tasks; kMismatch names tasks of different work, and files of a task
// that differ from its task.json. Uses force, dry_run and pack of the options; the link is not
// used, because every output is made from several files.
Result<TaskJoinReport> JoinTasks(const std::vector<std::string>& tasks, const std::string& out,
                                 const JoinOptions& options);

}  // namespace moepack::manifest
