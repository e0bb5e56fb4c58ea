// The tasks of one job as they are on disk, and what their outputs are made from.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"
#include "libshard/format/output_file.h"
#include "manifest/document/manifest.h"
#include "manifest/tasks/task_record.h"

namespace moepack::manifest {

struct ReadTask {
  std::string directory;
  SourceTreePtr tree;
  TaskRecord record;
  std::vector<SourceTreePtr> copies = {};  // other directories with the same record
};

// Reads task.json of each, and returns them in the order of their numbers, each once. kNotFound,
// with the numbers, if some are missing; kMismatch if they do not belong to the same work, or if
// one exists twice with different records.
Result<std::vector<ReadTask>> ReadTasks(const std::vector<std::string>& directories);

// Pieces as sources, and outputs whose tensors are ranges of them.
struct TaskOutputs {
  std::vector<SourceFile> sources;
  std::vector<OutputFile> files;  // for a GGUF, `tensors` are runs of its bytes, without names
};
// `planned` is the manifest of a distribution; null for a GGUF. kCorrupt if the pieces do not make
// up the outputs: bytes that no task or two tasks have.
Result<TaskOutputs> OutputsOf(const std::vector<ReadTask>& tasks, const Manifest* planned);

}  // namespace moepack::manifest
