// The tasks of one work as they lie on the disk, and what their outputs are made of.
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
};

// Reads task.json of each, and returns them in the order of their numbers, each once. kNotFound
// when some are missing, with their numbers; kMismatch when they are not of one work, or when one
// is there twice with different bytes.
Result<std::vector<ReadTask>> ReadTasks(const std::vector<std::string>& directories);

// Pieces as sources, and outputs whose tensors are ranges of them.
struct TaskOutputs {
  std::vector<SourceFile> sources;
  std::vector<OutputFile> files;  // `tensors` of a GGUF are runs of its bytes, without names
};
// `planned` is the manifest of a distribution, null for a GGUF. kCorrupt when the pieces do not
// make up the outputs: bytes that no task has, or two.
Result<TaskOutputs> OutputsOf(const std::vector<ReadTask>& tasks, const Manifest* planned);

}  // namespace moepack::manifest
