// Puts together what the tasks of one work have written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/write/join.h"

namespace moepack::manifest {

// The directories of tasks that `inputs` name: a task's own, or one that holds some. Empty when
// none of them is either. kInvalidArgument when some are and others are not.
Result<std::vector<std::string>> FindTasks(const std::vector<std::string>& inputs);

struct TaskJoinReport {
  uint32_t tasks = 0;
  std::optional<Manifest> manifest;     // none: a GGUF
  std::vector<JoinReport::File> files;  // that were (or would be) written
  std::vector<std::string> absent;      // as JoinReport::absent
  std::vector<std::string> warnings;    // about what was left on the disk
  uint64_t total_bytes() const;
};

// Writes at `out` what one run writes that does the work of all tasks: a directory, or a GGUF with
// the other files of its set beside it. A task may be there several times if it is the same.
// kNotFound names the tasks that are missing; kMismatch tasks of different work, and a file of a
// task that is not what its task.json says. Uses force, dry_run and pack of the options, of which
// the link is not used: every output is made of several files.
Result<TaskJoinReport> JoinTasks(const std::vector<std::string>& tasks, const std::string& out,
                                 const JoinOptions& options);

}  // namespace moepack::manifest
