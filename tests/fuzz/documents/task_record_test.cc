// ParseTaskRecord: what was read can be written and read again, its files stay inside the task's
// directory, and its runs inside their piece.
#include "manifest/tasks/task_record.h"

#include "libshard/base/files/inside_path.h"
#include "tests/fuzz/target.h"

namespace task_record_target {

using moepack::Cat;
using namespace moepack::manifest;

constexpr const char* kWhere = "damaged/task.json";

std::vector<std::string> Seeds() {
  TaskRecord first;
  first.number = {0, 3};
  first.work = std::string(64, 'a');
  first.pieces = {{0, "trunk.piece", 8192, std::string(64, 'b'), {{0, 0, 4096}, {4096, 8192, 512}}},
                  {1, "groups/000.piece", 4096, std::string(64, 'c'), {{0, 65536, 4096}}}};
  first.outputs = {{"trunk/trunk.safetensors", 100'000, 4096, 90'000},
                   {"groups/000/experts.safetensors", 70'000, 4096, 65'000}};
  first.cell_bytes = 65536;
  first.planned_sha256 = std::string(64, 'f');
  TaskRecord gguf;
  gguf.number = {2, 3};
  gguf.work = std::string(64, 'd');
  gguf.distribution = false;
  gguf.stem = "model";
  gguf.pieces = {{0, "model.gguf.piece", 512, std::string(64, 'e'), {{0, 1024, 512}}}};
  return {WriteTaskRecord(first), WriteTaskRecord(gguf)};
}

std::string PieceProblem(const PieceRecord& piece) {
  if (!moepack::StaysBelow(piece.file)) return "a piece outside: " + piece.file;
  uint64_t at = 0, place = 0;
  for (const moepack::PieceRun& run : piece.runs) {
    if (run.bytes == 0 || run.piece < at || run.file < place) return "runs that do not ascend";
    if (run.bytes > piece.size || run.piece > piece.size - run.bytes)
      return "a run outside its piece";
    at = run.piece + run.bytes;
    place = run.file + run.bytes;
    if (place < run.bytes) return "a run whose end overflows";
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto read = ParseTaskRecord(kWhere, input);
  if (!read) return fuzz::ErrorProblem(read.error(), kWhere);
  if (read->number.index >= read->number.count) return "a task behind the last";
  for (const PieceRecord& piece : read->pieces)
    if (const std::string problem = PieceProblem(piece); !problem.empty()) return problem;
  for (const PlannedOutput& output : read->outputs) {
    if (!moepack::StaysBelow(output.file)) return "an output outside: " + output.file;
    if (output.header > output.size || output.payload > output.size - output.header)
      return "an output that is smaller than what it holds";
  }
  const std::string text = WriteTaskRecord(*read);
  const auto again = ReadTaskRecord(kWhere, text);
  if (!again) return Cat("refused after writing: ", again.error().message);
  return WriteTaskRecord(*again) == text ? "" : "another record after writing twice";
}

constexpr fuzz::Target kTarget{Check, Seeds, 3000};

}  // namespace task_record_target

FUZZ_JSON_TARGET(FuzzTaskRecord, task_record_target::kTarget)
