#include "manifest/tasks/read_tasks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "manifest/tasks/find_shares.h"

namespace moepack::manifest {
namespace {

Result<ReadTask> ReadOne(const std::string& directory) {
  ReadTask task{directory, std::make_shared<const LocalTree>(directory), {}};
  SHARD_TRY(const std::string text, task.tree->ReadText(kTaskFile, kMaxTaskRecord));
  SHARD_TRY(task.record, ReadTaskRecord(task.tree->NameOf(kTaskFile), text));
  return task;
}

Error OtherTask(const ReadTask& task, const ReadTask& first, const char* thing,
                const std::string& expected, const std::string& found) {
  return {
      Code::kMismatch,
      Cat(task.tree->NameOf(kTaskFile), ": ", thing, ": expected ", expected, ", found ", found),
      Cat("expected as in ", first.directory,
          ": tasks fit together only if the same moepack divides one work over as many tasks: "
          "the same source, plan and options")};
}

Status CheckSameWork(const ReadTask& task, const ReadTask& first) {
  const TaskRecord& record = task.record;
  if (record.number.count != first.record.number.count) {
    return OtherTask(task, first, "tasks", Cat(first.record.number.count),
                     Cat(record.number.count));
  }
  if (record.work == first.record.work) return Ok();
  return OtherTask(task, first, "work", first.record.work, record.work);
}

Status CheckSameRecord(const ReadTask& task, const ReadTask& other) {
  const std::string &expected = other.record.sha256, &found = task.record.sha256;
  return expected == found ? Ok() : Status(OtherTask(task, other, "sha256", expected, found));
}

// A run of an output, and where it is.
struct PlacedRun {
  PieceRun run;
  uint32_t source = 0;
};

Error Broken(const PlannedOutput& output, uint64_t place, const char* found) {
  return {Code::kCorrupt,
          Cat(output.file, ": bytes at ", place, ": expected those of one task, found ", found),
          "a task.json was changed: that task has to run again, with --force"};
}

// The runs of an output in the order of its bytes.
Status SortRuns(const PlannedOutput& output, std::vector<PlacedRun>& runs) {
  std::sort(runs.begin(), runs.end(),
            [](const PlacedRun& a, const PlacedRun& b) { return a.run.file < b.run.file; });
  uint64_t end = output.header, payload = 0;
  for (const PlacedRun& placed : runs) {
    if (placed.run.file < end) return Broken(output, placed.run.file, "those of two");
    end = placed.run.file + placed.run.bytes;
    payload += placed.run.bytes;
  }
  if (end > output.size) return Broken(output, output.size, "more than the file has");
  if (payload == output.payload) return Ok();
  return Error{
      Code::kCorrupt,
      Cat(output.file, ": bytes of all tasks: expected ", output.payload, ", found ", payload),
      "a task.json was changed: that task has to run again, with --force"};
}

OutputTensor TensorAt(uint64_t offset, uint64_t bytes) {
  OutputTensor tensor;
  tensor.entry.offset = offset;
  tensor.entry.bytes = bytes;
  return tensor;
}

// Finds what tensors are made from; call it in the order of their bytes.
class RunCursor {
 public:
  explicit RunCursor(const std::vector<PlacedRun>& runs) : runs_(runs) {}

  // False if no task has some of the bytes.
  bool Take(OutputTensor& tensor) {
    uint64_t at = tensor.entry.offset;
    const uint64_t end = at + tensor.entry.bytes;
    while (at < end) {
      while (next_ < runs_.size() && End(runs_[next_]) <= at) ++next_;
      if (next_ == runs_.size() || runs_[next_].run.file > at) return false;
      const PlacedRun& placed = runs_[next_];
      const uint64_t count = std::min(end, End(placed)) - at;
      tensor.sources.push_back({placed.source, placed.run.piece + (at - placed.run.file), count});
      at += count;
    }
    return true;
  }

 private:
  static uint64_t End(const PlacedRun& placed) { return placed.run.file + placed.run.bytes; }

  const std::vector<PlacedRun>& runs_;
  size_t next_ = 0;
};

Result<OutputFile> MakeOutput(const PlannedOutput& output, const std::vector<PlacedRun>& runs,
                              const BundleRecord* bundle) {
  OutputFile file;
  file.path = output.file;
  file.size = output.size;
  if (bundle == nullptr) {
    for (const PlacedRun& placed : runs)
      file.tensors.push_back(TensorAt(placed.run.file, placed.run.bytes));
  } else {
    if (bundle->file != output.file || bundle->size != output.size)
      return Broken(output, 0, "another file in the manifest");
    file.role = bundle->role;
    file.group = bundle->group;
    for (const TensorRecord& tensor : bundle->tensors)
      file.tensors.push_back(TensorAt(tensor.offset, tensor.bytes));
  }
  RunCursor cursor(runs);
  for (OutputTensor& tensor : file.tensors) {
    if (!cursor.Take(tensor)) return Broken(output, tensor.entry.offset, "those of none");
  }
  return file;
}

Result<SourceFile> PieceSource(const ReadTask& task, const PieceRecord& piece) {
  SHARD_TRY(const ByteSourcePtr opened, task.tree->Open(piece.file));
  if (opened->size() != piece.size) {
    return Error{
        Code::kMismatch,
        Cat(opened->name(), ": file size: expected ", piece.size, " bytes, found ", opened->size()),
        "the file is corrupt: this task has to run again, with --force"};
  }
  SourceFile source;
  source.path = opened->name();
  source.name = piece.file;
  source.size = piece.size;
  source.header_sha256 = piece.sha256;  // distinguishes the piece from others in PackIdentity
  source.identity = opened->identity();
  source.tree = task.tree;
  return source;
}

}  // namespace

Result<std::vector<ReadTask>> ReadTasks(const std::vector<std::string>& directories) {
  std::map<uint32_t, ReadTask> tasks;
  for (const std::string& directory : directories) {
    SHARD_TRY(ReadTask task, ReadOne(directory));
    if (!tasks.empty()) SHARD_CHECK(CheckSameWork(task, tasks.begin()->second));
    const auto there = tasks.find(task.record.number.index);
    if (there == tasks.end()) {
      tasks.emplace(task.record.number.index, std::move(task));
    } else {
      SHARD_CHECK(CheckSameRecord(task, there->second));
      there->second.copies.push_back(task.tree);
    }
  }
  std::set<uint32_t> there;
  for (const auto& [number, task] : tasks) there.insert(number);
  const ReadTask& first = tasks.begin()->second;
  SHARD_CHECK(CheckAllThere(first.directory, first.record.number.count, there));
  std::vector<ReadTask> out;
  for (auto& [index, task] : tasks) out.push_back(std::move(task));
  return out;
}

Result<TaskOutputs> OutputsOf(const std::vector<ReadTask>& tasks, const Manifest* planned) {
  const TaskRecord& first = tasks[0].record;
  TaskOutputs out;
  std::vector<std::vector<PlacedRun>> runs(first.outputs.size());
  for (const ReadTask& task : tasks) {
    for (const PieceRecord& piece : task.record.pieces) {
      if (piece.output >= runs.size()) {
        return Error{Code::kCorrupt, Cat(task.tree->NameOf(kTaskFile), ": output: expected one of ",
                                         runs.size(), ", found number ", piece.output)};
      }
      const auto number = static_cast<uint32_t>(out.sources.size());
      SHARD_TRY(SourceFile source, PieceSource(task, piece));
      out.sources.push_back(std::move(source));
      for (const PieceRun& run : piece.runs) runs[piece.output].push_back({run, number});
    }
  }
  const size_t bundles = planned == nullptr ? runs.size() : planned->bundles.size();
  if (bundles != runs.size() || first.pieces.size() != runs.size()) {
    return Error{Code::kCorrupt, Cat(tasks[0].tree->NameOf(kTaskFile), ": outputs: expected ",
                                     bundles, ", found ", runs.size())};
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const PlannedOutput& output = first.outputs[i];
    SHARD_CHECK(SortRuns(output, runs[i]));
    const BundleRecord* bundle = planned == nullptr ? nullptr : &planned->bundles[i];
    SHARD_TRY(OutputFile file, MakeOutput(output, runs[i], bundle));
    SHARD_TRY(const ByteSourcePtr header, tasks[0].tree->Open(first.pieces[i].file));
    if (first.pieces[i].output != i || header->size() < output.header)
      return Broken(output, 0, "no header");
    file.prefix.resize(output.header);
    SHARD_CHECK(header->ReadAt(0, std::as_writable_bytes(std::span(file.prefix))));
    out.files.push_back(std::move(file));
  }
  return out;
}

}  // namespace moepack::manifest
