#include "libshard/calibrate/calibrated_store.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/refit/layer_store.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxRecordBytes = 256u << 20;

Result<CalibratedRecord> ReadRecord(const SourceTree& tree) {
  SHARD_TRY(const std::string text, tree.ReadText(kCalibratedFile, kMaxRecordBytes));
  const std::string where = tree.NameOf(kCalibratedFile);
  SHARD_TRY(const Json document, ParseJson(where, text));
  return CalibratedFromJson(where, document);
}

Status WriteRecord(const InsideDirectory& directory, const CalibratedRecord& record) {
  return directory.WriteText(kCalibratedFile, WriteJson(CalibratedToJson(record)));
}

// A layer's file: where it is, and what the record says of it.
struct LayerFile {
  const fs::path& directory;
  std::string name;
  const CalibratedOutcome& layer;
};

LayerFile FileOf(const fs::path& directory, const CalibratedRecord& record, uint32_t layer) {
  return {directory, CalibratedFileName(layer), record.layers[layer]};
}

LayerFile FileInGroup(const fs::path& directory, const CalibratedRecord& record, uint32_t group,
                      uint32_t layer) {
  return {directory, CalibratedGroupFileName(group, layer), *record.FindInGroup(group, layer)};
}

// Hands a file out in pieces, and then compares size and digest.
Status ReadLayerFile(const LayerFile& file,
                     const std::function<void(std::span<const std::byte>)>& piece) {
  const CalibratedOutcome& layer = file.layer;
  if (layer.tensors.empty()) return Ok();
  SHARD_TRY(const ByteSourcePtr source, LocalTree(file.directory).Open(file.name));
  const auto differs = [&](const char* what, const auto& expected, const auto& found) {
    return Error{Code::kCorrupt,
                 Cat(source->name(), ": ", what, ": expected ", expected, " (", kCalibratedFile,
                     "), found ", found),
                 "remove the directory, and calibrate again"};
  };
  if (source->size() != layer.bytes()) return differs("bytes", layer.bytes(), source->size());
  Sha256 digest;
  std::vector<std::byte> buffer(kNearScanStep);
  for (uint64_t at = 0; at < source->size(); at += buffer.size()) {
    SHARD_CHECK(CheckInterrupt());
    const auto bytes =
        std::span(buffer).first(std::min<uint64_t>(buffer.size(), source->size() - at));
    SHARD_CHECK(source->ReadAt(at, bytes));
    digest.Update(bytes);
    if (piece) piece(bytes);
  }
  const std::string sha256 = digest.Finish();
  if (sha256 != layer.sha256) return differs("sha256", layer.sha256, sha256);
  return source->CheckUnchanged();
}

Result<EncodedTensors> ReadTensorsOf(const LayerFile& file) {
  // What a record states takes memory only as bytes of the file arrive.
  std::vector<std::byte> whole;
  SHARD_CHECK(ReadLayerFile(file, [&](std::span<const std::byte> piece) {
    whole.insert(whole.end(), piece.begin(), piece.end());
  }));
  EncodedTensors tensors;
  for (const CalibratedTensor& tensor : file.layer.tensors) {
    const auto bytes = std::span(whole).subspan(tensor.offset, tensor.bytes);
    tensors[tensor.name].assign(bytes.begin(), bytes.end());
  }
  return tensors;
}

// Returns the file's digest.
Result<std::string> WriteLayerFile(const InsideDirectory& directory, const std::string& file,
                                   const EncodedTensors& tensors) {
  Sha256 digest;
  const auto write = [&](const InsideDirectory::TextSink& sink) -> Status {
    for (const auto& [name, bytes] : tensors) {
      digest.Update(bytes);
      SHARD_CHECK(sink({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    return Ok();
  };
  SHARD_CHECK(directory.WritePieces(file, write));
  return digest.Finish();
}

// Writes the tensors to the file of this name, and sets what the record says of it. kMismatch for a
// tensor without a type.
Status WriteTensors(const InsideDirectory& directory, const std::string& name,
                    const EncodedTensors& tensors,
                    const std::map<std::string, const quant::Format*, std::less<>>& types,
                    CalibratedOutcome& outcome) {
  outcome.tensors.clear();
  outcome.sha256.clear();
  uint64_t end = 0;
  for (const auto& [tensor, bytes] : tensors) {
    const auto type = types.find(tensor);
    if (type == types.end())
      return Error{Code::kMismatch, Cat(Shown(directory.path().string()), "/", name, ": tensor ",
                                        Quoted(tensor), ": expected one with a type, found none")};
    outcome.tensors.push_back({tensor, type->second, end, bytes.size()});
    end += bytes.size();
  }
  if (tensors.empty()) return Ok();
  SHARD_TRY(outcome.sha256, WriteLayerFile(directory, name, tensors));
  return Ok();
}

// Whether layers of groups are there. Without any, the refit that is named is only what was meant.
bool HasGroups(const CalibratedRecord& record) {
  return record.groups && !record.groups->layers.empty();
}

Error Differs(const fs::path& directory, const std::string& what, const std::string& expected,
              const std::string& found) {
  return Error{
      Code::kMismatch,
      Cat(Shown(directory.string()), ": ", what, ": expected ", expected, ", found ", found),
      "the tensors there were encoded for something else: name another directory, or "
      "remove this one"};
}

}  // namespace

std::string CalibratedFileName(uint32_t layer) {
  return Cat("layer-", ZeroPadded(layer, 3), ".bin");
}

std::string CalibratedGroupFileName(uint32_t group, uint32_t layer) {
  return Cat("group-", ZeroPadded(group, 3), "-", CalibratedFileName(layer));
}

Status CheckSameCalibration(const fs::path& directory, const CalibratedRecord& wanted,
                            const CalibratedRecord& found) {
  if (wanted.model != found.model) return Differs(directory, "model", wanted.model, found.model);
  if (wanted.types != found.types)
    return Differs(directory, "types of the tensors", wanted.types, found.types);
  if (wanted.layer_count != found.layer_count)
    return Differs(directory, "layers", Cat(wanted.layer_count), Cat(found.layer_count));
  const auto other = FirstDifferentParameter(wanted.parameters, found.parameters);
  if (other)
    return Differs(directory, Cat("parameter ", Shown(other->name)), other->wanted, other->found);
  if (!SameTexts(found.calibration, wanted.calibration))
    return Differs(directory, "calibration texts", "those given", "others");
  if (!wanted.groups || !HasGroups(found) || wanted.groups->refit == found.groups->refit)
    return Ok();
  return Differs(directory, "refit of the groups", wanted.groups->refit, found.groups->refit);
}

namespace {

constexpr LayerStoreKind<CalibratedRecord> kCalibratedStoreKind = {
    kCalibratedFile,
    "the store of a calibration",
    "give each run a --calibrated-store of its own",
    ReadRecord,
    CalibratedToJson,
    WriteRecord,
    CheckSameCalibration,
    [](const CalibratedRecord& record) { return !record.layers.empty() || HasGroups(record); }};

}  // namespace

Result<CalibratedStore> CalibratedStore::Open(const fs::path& directory) {
  CalibratedStore store;
  store.directory_ = directory;
  SHARD_TRY(store.record_, ReadRecord(LocalTree(directory)));
  return store;
}

Status CalibratedStore::Check(uint32_t layer) const {
  return ReadLayerFile(FileOf(directory_, record_, layer), {});
}

Result<EncodedTensors> CalibratedStore::Read(uint32_t layer) const {
  return ReadTensorsOf(FileOf(directory_, record_, layer));
}

Status CalibratedStore::CheckInGroup(uint32_t group, uint32_t layer) const {
  return ReadLayerFile(FileInGroup(directory_, record_, group, layer), {});
}

Result<EncodedTensors> CalibratedStore::ReadInGroup(uint32_t group, uint32_t layer) const {
  return ReadTensorsOf(FileInGroup(directory_, record_, group, layer));
}

Result<CalibratedStoreWriter> CalibratedStoreWriter::Open(const fs::path& directory,
                                                          CalibratedRecord record) {
  SHARD_TRY(InsideDirectory opened, InsideDirectory::OpenOrMake(directory));
  CalibratedStoreWriter writer(std::move(opened));
  record.layers.clear();
  if (record.groups) record.groups->layers.clear();
  SHARD_TRY(writer.record_,
            ResumeLayerStore(kCalibratedStoreKind, writer.files_, std::move(record)));
  return writer;
}

Result<EncodedTensors> CalibratedStoreWriter::Read(uint32_t layer) const {
  return ReadTensorsOf(FileOf(files_.path(), record_, layer));
}

Result<EncodedTensors> CalibratedStoreWriter::ReadInGroup(uint32_t group, uint32_t layer) const {
  return ReadTensorsOf(FileInGroup(files_.path(), record_, group, layer));
}

Status CalibratedStoreWriter::Add(
    CalibratedOutcome outcome, const EncodedTensors& tensors,
    const std::map<std::string, const quant::Format*, std::less<>>& types) {
  SHARD_CHECK(CheckStillWritten(kCalibratedStoreKind, files_, record_));
  SHARD_CHECK(WriteTensors(files_, CalibratedFileName(outcome.layer), tensors, types, outcome));
  CalibratedRecord record = record_;
  record.layers.push_back(std::move(outcome));
  return Replace(std::move(record));
}

Status CalibratedStoreWriter::AddToGroup(
    const std::string& refit, uint32_t group, CalibratedOutcome outcome,
    const EncodedTensors& tensors,
    const std::map<std::string, const quant::Format*, std::less<>>& types) {
  SHARD_CHECK(CheckStillWritten(kCalibratedStoreKind, files_, record_));
  SHARD_CHECK(
      WriteTensors(files_, CalibratedGroupFileName(group, outcome.layer), tensors, types, outcome));
  CalibratedRecord record = record_;
  if (!HasGroups(record)) record.groups = CalibratedGroups{refit, {}};
  record.groups->layers.resize(std::max<size_t>(record.groups->layers.size(), group + 1));
  record.groups->layers[group].push_back(std::move(outcome));
  return Replace(std::move(record));
}

// The record follows the file that it names: a run that is killed between them writes the layer
// again. `record_` changes only once the new record is on disk.
Status CalibratedStoreWriter::Replace(CalibratedRecord record) {
  SHARD_CHECK(WriteRecord(files_, record));
  record_ = std::move(record);
  return Ok();
}

}  // namespace moepack
