// task.json records what a task has written: which bytes of which files of the output.
// docs/scale-out.md describes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/tasks/divide.h"
#include "libshard/tasks/fragments.h"

namespace moepack::manifest {

inline constexpr const char* kTaskFile = "task.json";
inline constexpr uint64_t kMaxTaskRecord = 256u << 20;  // bytes that are read
// Beside task.json, for the first task of a distribution: its distribution.json with zeros for the
// digests of bundles, as WriteManifest gives it.
inline constexpr const char* kPlannedFile = "planned.json";

// A file of a task.
struct PieceRecord {
  uint32_t output = 0;  // the index of its output in the list of all
  std::string file;     // in the task's directory
  uint64_t size = 0;
  std::string sha256;
  std::vector<PieceRun> runs;
};

// A file of the output. Its header is the beginning of the first task's piece.
struct PlannedOutput {
  std::string file;  // in a distribution; for a GGUF, beside the others of its set
  uint64_t size = 0, header = 0, payload = 0;  // payload: of its tensors, without padding
};

struct TaskRecord {
  TaskNumber number;
  std::string work;          // a digest of all that decides the output's bytes; equal in all tasks
  bool distribution = true;  // otherwise a GGUF
  std::string stem;          // for a GGUF: what the names of its files begin with
  std::vector<PieceRecord> pieces;
  // Only for the first task:
  std::vector<PlannedOutput> outputs;
  uint64_t cell_bytes = 0;     // of the chunk map; 0: none
  std::string planned_sha256;  // of kPlannedFile; "" for a GGUF, which has none
  // Of all of the above, as the text states it. WriteTaskRecord computes it.
  std::string sha256;
};

std::string WriteTaskRecord(const TaskRecord& record);
// The text may be hostile: names must stay inside the directory, runs inside their piece, and runs
// must ascend. kCorrupt for anything else, kUnsupported for another version.
Result<TaskRecord> ParseTaskRecord(const std::string& where, std::string_view text);
// The same, and kMismatch if the digest is not that of the rest.
Result<TaskRecord> ReadTaskRecord(const std::string& where, std::string_view text);

inline constexpr const char* kCorruptTaskHint = "this task has to run again, with --force";

// "OUT.tasks/00003-of-00016": where a task of the output `out` writes. Trailing slashes are
// ignored.
std::string TasksDirectory(const std::string& out);
std::string TaskName(const TaskNumber& number);

}  // namespace moepack::manifest
