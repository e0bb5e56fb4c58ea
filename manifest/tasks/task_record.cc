#include "manifest/tasks/task_record.h"

#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {
namespace {

constexpr const char* kTaskFormat = "moepack-task";
constexpr uint64_t kTaskVersion = 2;
constexpr uint64_t kMaxOutputs = 1u << 20;
constexpr size_t kDigits = 64, kNameDigits = 5;

Json PieceToJson(const PieceRecord& piece) {
  Json runs = Json::array();
  for (const PieceRun& run : piece.runs) runs.push_back({run.piece, run.file, run.bytes});
  return {{"output", piece.output},
          {"file", piece.file},
          {"size", piece.size},
          {"sha256", piece.sha256},
          {"runs", std::move(runs)}};
}

Json OutputToJson(const PlannedOutput& output) {
  return {{"file", output.file},
          {"size", output.size},
          {"header", output.header},
          {"payload", output.payload}};
}

Result<PieceRun> RunFromJson(const std::string& where, const Json& value) {
  const bool numbers = value.is_array() && value.size() == 3 && value[0].is_number_unsigned() &&
                       value[1].is_number_unsigned() && value[2].is_number_unsigned();
  if (!numbers) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected three numbers, found ", DescribeJson(value))};
  }
  return PieceRun{value[0].get<uint64_t>(), value[1].get<uint64_t>(), value[2].get<uint64_t>()};
}

// Runs ascend in both files without touching, and end inside the piece.
Status CheckRuns(const std::string& where, const PieceRecord& piece) {
  uint64_t at = 0, place = 0;
  for (size_t i = 0; i < piece.runs.size(); ++i) {
    const PieceRun& run = piece.runs[i];
    const bool inside = run.bytes > 0 && run.bytes <= piece.size && run.piece >= at &&
                        run.piece <= piece.size - run.bytes && run.file >= place &&
                        run.file <= kMaxFileBytes - run.bytes;
    if (!inside) {
      return Error{Code::kCorrupt,
                   Cat(where, ": run ", i, ": expected one behind the last, inside ", piece.size,
                       " bytes, found ", run.bytes, " bytes at ", run.piece, " for ", run.file)};
    }
    at = run.piece + run.bytes;
    place = run.file + run.bytes;
  }
  return Ok();
}

Result<PieceRecord> PieceFromJson(const std::string& where, const Json& value) {
  SHARD_CHECK(CheckObject(where, value));
  const JsonFields fields(value, where);
  PieceRecord piece;
  SHARD_TRY(const uint64_t output, NumberField(fields, "output", kMaxOutputs));
  piece.output = static_cast<uint32_t>(output);
  SHARD_TRY(piece.file, fields.String("file"));
  SHARD_CHECK(CheckRelativePath(where, piece.file));
  SHARD_TRY(piece.size, NumberField(fields, "size", kMaxFileBytes));
  SHARD_TRY(piece.sha256, HexField(fields, "sha256", kDigits));
  SHARD_TRY(const Json* runs, fields.Array("runs"));
  for (const Json& run : *runs) {
    SHARD_TRY(const PieceRun parsed, RunFromJson(Cat(where, ": runs"), run));
    piece.runs.push_back(parsed);
  }
  SHARD_CHECK(CheckRuns(where, piece));
  return piece;
}

Result<PlannedOutput> OutputFromJson(const std::string& where, const Json& value) {
  SHARD_CHECK(CheckObject(where, value));
  const JsonFields fields(value, where);
  PlannedOutput output;
  SHARD_TRY(output.file, fields.String("file"));
  SHARD_CHECK(CheckRelativePath(where, output.file));
  SHARD_TRY(output.size, NumberField(fields, "size", kMaxFileBytes));
  SHARD_TRY(output.header, NumberField(fields, "header", output.size));
  SHARD_TRY(output.payload, NumberField(fields, "payload", output.size - output.header));
  return output;
}

Status CheckFormat(const std::string& where, const JsonFields& fields) {
  SHARD_TRY(const std::string format, fields.String("format"));
  SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
  if (format != kTaskFormat) {
    return Error{Code::kCorrupt,
                 Cat(where, ": format: expected ", kTaskFormat, ", found ", Quoted(format))};
  }
  if (version == kTaskVersion) return Ok();
  return Error{Code::kUnsupported,
               Cat(where, ": version: expected ", kTaskVersion, ", found ", version),
               "another moepack wrote it: join with the same"};
}

Result<TaskNumber> NumberFromJson(const JsonFields& fields) {
  SHARD_TRY(const uint64_t count, NumberField(fields, "tasks", kMaxTasks));
  if (count == 0) return fields.Wrong("tasks", "at least 1");
  SHARD_TRY(const uint64_t index, NumberField(fields, "task", count - 1));
  return TaskNumber{static_cast<uint32_t>(index), static_cast<uint32_t>(count)};
}

// Without the digest of the document itself.
Json ToJson(const TaskRecord& record) {
  Json out = {{"format", kTaskFormat},       {"version", kTaskVersion},
              {"task", record.number.index}, {"tasks", record.number.count},
              {"work", record.work},         {"distribution", record.distribution}};
  if (!record.stem.empty()) out["stem"] = record.stem;
  if (record.cell_bytes > 0) out["cell_bytes"] = record.cell_bytes;
  Json pieces = Json::array();
  for (const PieceRecord& piece : record.pieces) pieces.push_back(PieceToJson(piece));
  out["pieces"] = std::move(pieces);
  if (!record.planned_sha256.empty()) out["planned_sha256"] = record.planned_sha256;
  if (record.outputs.empty()) return out;
  Json outputs = Json::array();
  for (const PlannedOutput& output : record.outputs) outputs.push_back(OutputToJson(output));
  out["outputs"] = std::move(outputs);
  return out;
}

std::string DigestOf(const Json& document) { return Sha256Hex(WriteJson(document)); }

}  // namespace

std::string WriteTaskRecord(const TaskRecord& record) {
  Json out = ToJson(record);
  out["sha256"] = DigestOf(out);
  return WriteJson(out);
}

Result<TaskRecord> ParseTaskRecord(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckFormat(where, fields));
  TaskRecord record;
  SHARD_TRY(record.number, NumberFromJson(fields));
  SHARD_TRY(record.work, HexField(fields, "work", kDigits));
  SHARD_TRY(record.distribution, fields.Bool("distribution"));
  SHARD_TRY(record.stem, fields.StringOr("stem", ""));
  if (fields.Has("cell_bytes")) {
    SHARD_TRY(record.cell_bytes, NumberField(fields, "cell_bytes", kMaxFileBytes));
    if (record.cell_bytes == 0) return fields.Wrong("cell_bytes", "a number of bytes above 0");
  }
  SHARD_TRY(const Json* pieces, fields.Array("pieces"));
  for (const Json& value : *pieces) {
    SHARD_TRY(PieceRecord piece,
              PieceFromJson(Cat(where, ": piece ", record.pieces.size()), value));
    record.pieces.push_back(std::move(piece));
  }
  SHARD_TRY(record.sha256, HexField(fields, "sha256", kDigits));
  if (record.distribution && record.number.index == 0) {
    SHARD_TRY(record.planned_sha256, HexField(fields, "planned_sha256", kDigits));
  }
  if (!fields.Has("outputs")) return record;
  SHARD_TRY(const Json* outputs, fields.Array("outputs"));
  for (const Json& value : *outputs) {
    SHARD_TRY(PlannedOutput output,
              OutputFromJson(Cat(where, ": output ", record.outputs.size()), value));
    record.outputs.push_back(std::move(output));
  }
  if (record.outputs.empty()) return fields.Wrong("outputs", "at least one");
  return record;
}

Result<TaskRecord> ReadTaskRecord(const std::string& where, std::string_view text) {
  SHARD_TRY(TaskRecord record, ParseTaskRecord(where, text));
  const std::string found = DigestOf(ToJson(record));
  if (found == record.sha256) return record;
  return Error{Code::kMismatch, Cat(where, ": sha256: expected ", record.sha256, ", found ", found),
               Cat("the file was changed: ", kCorruptTaskHint)};
}

std::string TasksDirectory(const std::string& out) {
  std::string name = out;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return name + ".tasks";
}

std::string TaskName(const TaskNumber& number) {
  return Cat(ZeroPadded(number.index, kNameDigits), "-of-", ZeroPadded(number.count, kNameDigits));
}

}  // namespace moepack::manifest
