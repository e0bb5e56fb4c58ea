#include "libshard/refit/refit_store.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/limits.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"
#include "libshard/format/safetensors.h"
#include "libshard/refit/layer_store.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxRecordBytes = 256u << 20;
constexpr const char* kLayerKey = "layer";
constexpr const char* kGroupKey = "group";
constexpr const char* kExpertsKey = "experts";
constexpr const char* kUp = "up";
constexpr const char* kRouter = "router";

using Shape = std::vector<uint64_t>;

// Which experts the file claims to have; an error if it is for another layer or group.
Result<ExpertIds> ReadExperts(const std::string& where, const SafetensorsHeader& header,
                              uint32_t layer, uint32_t group) {
  for (const auto& [key, expected] : {std::pair(kLayerKey, layer), std::pair(kGroupKey, group)}) {
    const auto found = header.metadata.find(key);
    if (found == header.metadata.end() || found->second != Cat(expected))
      return Error{Code::kCorrupt,
                   Cat(where, ": ", key, ": expected ", expected, ", found ",
                       found == header.metadata.end() ? "none" : Quoted(found->second))};
  }
  const auto ids = header.metadata.find(kExpertsKey);
  if (ids == header.metadata.end())
    return Error{Code::kCorrupt, Cat(where, ": ", kExpertsKey, ": expected a list, found none")};
  return ParseIds(Cat(where, ": ", kExpertsKey), ids->second, kMaxExpertsPerLayer - 1);
}

const RefittedArray* FindArray(std::string_view name) {
  for (const RefittedArray& array : RefittedArrays())
    if (array.name == name) return &array;
  return nullptr;
}

Status CheckNames(const std::string& where, const SafetensorsHeader& header) {
  for (const TensorEntry& tensor : header.tensors) {
    if (FindArray(tensor.name) != nullptr) continue;
    return Error{Code::kCorrupt, Cat(where, ": tensor ", Quoted(tensor.name),
                                     ": expected an array of a refit, found another")};
  }
  return Ok();
}

// Notes where an array is. The shapes follow from those of `up`, which comes first, and of
// `router`.
Status AddArray(const std::string& where, const TensorEntry& tensor, RefittedFile& out) {
  const std::string place = Cat(where, ": tensor ", Quoted(tensor.name));
  const RefittedArray* array = FindArray(tensor.name);
  if (tensor.dtype != "F32")
    return Error{Code::kCorrupt, Cat(place, ": expected F32, found ", Shown(tensor.dtype))};
  if (tensor.name == kUp && tensor.shape.size() == 3) {
    out.width = tensor.shape[1];
    out.hidden = tensor.shape[2];
  }
  if (tensor.name == kRouter && tensor.shape.size() == 2) out.router_width = tensor.shape[1];
  const Shape expected = array->ShapeOf(out.expert_ids.size(), out);
  if (tensor.shape != expected)
    return Error{Code::kCorrupt, Cat(place, ": expected ", FormatShape(expected), ", found ",
                                     FormatShape(tensor.shape))};
  out.offsets[tensor.name] = tensor.offset;
  return Ok();
}

Status CheckAgainstRecord(const std::string& where, const RefittedFile& file,
                          const RefitOutcome& outcome) {
  if (file.expert_ids != outcome.expert_ids)
    return Error{Code::kCorrupt,
                 Cat(where, ": ", kExpertsKey, ": expected ", Quoted(FormatIds(outcome.expert_ids)),
                     " (refit.json), found ", Quoted(FormatIds(file.expert_ids)))};
  std::vector<std::string> names;
  for (const RefittedArray& array : RefittedArrays()) {
    if (file.offsets.contains(array.name)) names.emplace_back(array.name);
    if (!array.required || file.offsets.contains(array.name)) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": tensor ", Quoted(array.name), ": expected in the file, found none")};
  }
  if (names == outcome.arrays) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": tensors: expected ", Join(outcome.arrays, ", "),
                                   " (refit.json), found ", Join(names, ", "))};
}

Result<RefittedFile> ReadHeader(const ByteSource& file, const RefitOutcome& outcome) {
  SHARD_TRY(const SafetensorsHeader header, ReadSafetensorsHeader(file, file.name()));
  RefittedFile out;
  out.size = file.size();
  out.data_start = header.data_start;
  // CheckContent walks the file in steps of whole floats.
  if (out.data_start % sizeof(float) != 0)
    return Error{Code::kCorrupt, Cat(file.name(), ": start of the data: expected a multiple of ",
                                     sizeof(float), ", found ", out.data_start)};
  SHARD_TRY(out.expert_ids, ReadExperts(file.name(), header, outcome.layer, outcome.group));
  SHARD_CHECK(CheckNames(file.name(), header));
  // `up` goes first in any order of the file, because the other shapes follow from its own.
  for (const bool up : {true, false}) {
    for (const TensorEntry& tensor : header.tensors)
      if ((tensor.name == kUp) == up) SHARD_CHECK(AddArray(file.name(), tensor, out));
  }
  SHARD_CHECK(CheckAgainstRecord(file.name(), out, outcome));
  return out;
}

// The array that contains this byte of the file.
std::string ArrayAt(const RefittedFile& file, uint64_t offset) {
  std::string name;
  uint64_t begin = 0;
  for (const auto& [array, at] : file.offsets) {
    if (at > offset || (at < begin && !name.empty())) continue;
    name = array;
    begin = at;
  }
  return name;
}

// Hashes the file and checks every value in one pass.
Status CheckContent(const ByteSource& source, const RefittedFile& file,
                    const RefitOutcome& outcome) {
  Sha256 digest;
  std::vector<std::byte> buffer(kNearScanStep);
  // The data starts at a multiple of eight, and so does every step.
  for (uint64_t at = 0; at < file.size; at += buffer.size()) {
    SHARD_CHECK(CheckInterrupt());
    const auto piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), file.size - at));
    SHARD_CHECK(source.ReadAt(at, piece));
    digest.Update(piece);
    for (uint64_t i = at < file.data_start ? std::min<uint64_t>(file.data_start - at, piece.size())
                                           : 0;
         i + sizeof(float) <= piece.size(); i += sizeof(float)) {
      const auto value = LoadLe<float>(piece.subspan(i));
      if (std::isfinite(value)) continue;
      return Error{Code::kCorrupt,
                   Cat(source.name(), ": tensor ", Quoted(ArrayAt(file, at + i)),
                       ": expected finite values, found ", value, " at byte ", at + i, " (layer ",
                       outcome.layer, ", group ", outcome.group, ")")};
    }
  }
  const std::string sha256 = digest.Finish();
  // The values are checked before the digest: a file whose digest is right may still hold a NaN,
  // and the message should name the tensor.
  if (sha256 == outcome.sha256) return source.CheckUnchanged();
  return Error{Code::kCorrupt, Cat(source.name(), ": sha256: expected ", outcome.sha256,
                                   " (refit.json), found ", sha256)};
}

Result<RefittedExperts> ReadValues(const ByteSource& source, const RefittedFile& file,
                                   const RefitOutcome& outcome) {
  RefittedExperts out;
  out.layer = outcome.layer;
  out.group = outcome.group;
  out.expert_ids = file.expert_ids;
  out.hidden = file.hidden;
  out.width = file.width;
  out.router_width = file.router_width;
  for (const RefittedArray& array : RefittedArrays()) {
    const auto offset = file.offsets.find(array.name);
    if (offset == file.offsets.end()) continue;
    uint64_t count = 1;
    for (const uint64_t size : array.ShapeOf(file.expert_ids.size(), file)) count *= size;
    std::vector<float>& values = out.*array.values;
    values.resize(count);
    SHARD_CHECK(source.ReadAt(offset->second, std::as_writable_bytes(std::span(values))));
  }
  return out;
}

std::vector<std::string> NamesOf(const RefittedExperts& refitted) {
  std::vector<std::string> names;
  for (const RefittedArray& array : RefittedArrays())
    if (!(refitted.*array.values).empty()) names.emplace_back(array.name);
  return names;
}

std::string HeaderOf(const RefittedExperts& refitted) {
  std::vector<TensorEntry> tensors;
  for (const RefittedArray& array : RefittedArrays()) {
    const std::vector<float>& values = refitted.*array.values;
    if (values.empty()) continue;
    TensorEntry& tensor = tensors.emplace_back();
    tensor.name = array.name;
    tensor.dtype = "F32";
    tensor.shape = array.ShapeOf(refitted.expert_ids.size(), refitted);
    tensor.bytes = values.size() * sizeof(float);
  }
  // The metadata repeats what the name says, so that a file that was renamed is recognised.
  return BuildSafetensorsHeader(tensors, {{kExpertsKey, FormatIds(refitted.expert_ids)},
                                          {kGroupKey, Cat(refitted.group)},
                                          {kLayerKey, Cat(refitted.layer)}});
}

// Returns the file's digest.
Result<std::string> WriteRefitted(const InsideDirectory& directory,
                                  const RefittedExperts& refitted) {
  Sha256 digest;
  const auto write = [&](const InsideDirectory::TextSink& sink) -> Status {
    const auto piece = [&](std::string_view text) -> Status {
      digest.Update(std::as_bytes(std::span(text)));
      return sink(text);
    };
    SHARD_CHECK(piece(HeaderOf(refitted)));
    for (const RefittedArray& array : RefittedArrays()) {
      const std::vector<float>& values = refitted.*array.values;
      if (values.empty()) continue;
      SHARD_CHECK(
          piece({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
    }
    return Ok();
  };
  SHARD_CHECK(directory.WritePieces(RefittedFileName(refitted.layer, refitted.group), write));
  return digest.Finish();
}

Status WriteRecord(const InsideDirectory& directory, const RefitRecord& record) {
  return directory.WriteText(kRefitFile, WriteJson(RefitToJson(record)));
}

Result<RefitRecord> ReadRecord(const SourceTree& tree) {
  SHARD_TRY(const std::string text, tree.ReadText(kRefitFile, kMaxRecordBytes));
  const std::string where = tree.NameOf(kRefitFile);
  SHARD_TRY(const Json document, ParseJson(where, text));
  return RefitFromJson(where, document);
}

Error OtherRefit(const fs::path& directory, const std::string& what,
                 const std::string& expected = "those of this refit",
                 const std::string& found = "others") {
  return Error{
      Code::kMismatch,
      Cat(Shown(directory.string()), ": ", what, ": expected ", expected, ", found ", found),
      "name another directory, or remove this one"};
}

}  // namespace

std::string RefittedFileName(uint32_t layer, uint32_t group) {
  return Cat("layer-", ZeroPadded(layer, 3), "-group-", ZeroPadded(group, 3), ".safetensors");
}

Result<RefitStore> RefitStore::Open(const fs::path& directory) {
  RefitStore store;
  store.directory_ = directory;
  const LocalTree tree(directory);
  SHARD_TRY(store.record_, ReadRecord(tree));
  if (!IsPart(store.record_)) return store;
  SHARD_TRY(store.part_, ReadRefitPart(tree));
  if (store.part_) return store;
  return Error{Code::kCorrupt,
               Cat(tree.NameOf(kRefitPartFile), ": expected the groups of a part, found no file"),
               "run the refit again: it writes the file"};
}

Result<bool> RefitStore::IsFinished() const {
  std::vector<std::string> matrices = {kRefitImatrix};
  if (part_)
    for (const uint32_t group : part_->groups) matrices.push_back(RefitGroupImatrix(group));
  const LocalTree tree(directory_);
  for (const std::string& matrix : matrices) {
    SHARD_TRY(const bool there, tree.Has(matrix));
    if (!there) return false;
  }
  return !record_.outcomes.empty();
}

Result<std::optional<RefittedFile>> RefitStore::Check(uint32_t layer, uint32_t group) const {
  const RefitOutcome* outcome = record_.Find(layer, group);
  if (outcome == nullptr || !outcome->accepted) return std::optional<RefittedFile>();
  SHARD_TRY(const ByteSourcePtr source, LocalTree(directory_).Open(RefittedFileName(layer, group)));
  SHARD_TRY(RefittedFile file, ReadHeader(*source, *outcome));
  SHARD_CHECK(CheckContent(*source, file, *outcome));
  return std::optional(std::move(file));
}

Result<std::optional<RefittedExperts>> RefitStore::Read(uint32_t layer, uint32_t group) const {
  SHARD_TRY(const std::optional<RefittedFile> file, Check(layer, group));
  if (!file) return std::optional<RefittedExperts>();
  SHARD_TRY(const ByteSourcePtr source, LocalTree(directory_).Open(RefittedFileName(layer, group)));
  SHARD_TRY(RefittedExperts refitted, ReadValues(*source, *file, *record_.Find(layer, group)));
  return std::optional(std::move(refitted));
}

Status CheckSameRefit(const fs::path& directory, const RefitRecord& wanted,
                      const RefitRecord& found) {
  // Layers of two refits never share a store: each was fitted to the output of the layers before
  // it.
  if (wanted.model != found.model) return OtherRefit(directory, "model");
  if (wanted.plan != found.plan) return OtherRefit(directory, "plan");
  if (wanted.steps != found.steps)
    return OtherRefit(directory, "steps", Join(wanted.steps, ","), Join(found.steps, ","));
  const auto other = FirstDifferentParameter(wanted.parameters, found.parameters);
  if (other)
    return OtherRefit(directory, Cat("parameter ", Shown(other->name)), other->wanted,
                      other->found);
  if (!SameTexts(found.calibration, wanted.calibration))
    return OtherRefit(directory, "calibration texts");
  return Ok();
}

namespace {

constexpr LayerStoreKind<RefitRecord> kRefitStoreKind = {
    kRefitFile,
    "a refit store",
    "give each refit a --store of its own",
    ReadRecord,
    RefitToJson,
    WriteRecord,
    CheckSameRefit,
    [](const RefitRecord& record) { return !record.outcomes.empty(); }};

}  // namespace

namespace {

// Says by name what a digest in the record would only say is different.
Status CheckPartThere(const InsideDirectory& files, const std::optional<RefitPart>& part) {
  SHARD_TRY(const InsideDirectory::Kind there, files.KindOf(kRefitFile));
  if (there == InsideDirectory::Kind::kNothing) return Ok();
  const LocalTree tree(files.path());
  SHARD_TRY(const RefitRecord found, ReadRecord(tree));
  if (found.outcomes.empty()) return Ok();
  SHARD_TRY(const std::optional<RefitPart> found_part, ReadRefitPart(tree));
  return CheckSamePart(files.path(), part, found_part);
}

}  // namespace

Result<RefitStoreWriter> RefitStoreWriter::Open(const fs::path& directory, RefitRecord record,
                                                const std::optional<RefitPart>& part) {
  SHARD_TRY(InsideDirectory opened, InsideDirectory::OpenOrMake(directory));
  RefitStoreWriter writer(std::move(opened));
  SHARD_CHECK(CheckPartThere(writer.files_, part));
  record.outcomes.clear();
  if (part) NamePart(*part, record);
  SHARD_TRY(writer.record_, ResumeLayerStore(kRefitStoreKind, writer.files_, std::move(record)));
  if (part) {
    SHARD_CHECK(writer.files_.WriteText(kRefitPartFile, RefitPartText(*part)));
  } else {
    SHARD_CHECK(writer.files_.RemoveFile(kRefitPartFile));
  }
  return writer;
}

bool RefitStoreWriter::Has(uint32_t layer) const { return record_.HasLayer(layer); }

Status RefitStoreWriter::Add(std::vector<RefitOutcome> outcomes,
                             const std::vector<RefittedExperts>& accepted) {
  SHARD_CHECK(CheckStillWritten(kRefitStoreKind, files_, record_));
  for (RefitOutcome& outcome : outcomes) {
    outcome.sha256.clear();
    outcome.expert_ids.clear();
    outcome.arrays.clear();
    if (!outcome.accepted) continue;
    const auto experts =
        std::find_if(accepted.begin(), accepted.end(),
                     [&](const RefittedExperts& one) { return one.group == outcome.group; });
    const std::string name = RefittedFileName(outcome.layer, outcome.group);
    if (experts == accepted.end() || experts->layer != outcome.layer)
      return Error{Code::kInvalidArgument, Cat(Shown(files_.path().string()), ": ", name,
                                               ": expected experts, found none")};
    SHARD_CHECK(CheckRefitted(name, *experts));
    outcome.expert_ids = experts->expert_ids;
    outcome.arrays = NamesOf(*experts);
    SHARD_TRY(outcome.sha256, WriteRefitted(files_, *experts));
  }
  // The record follows the files that it names: a run that is killed between them writes the layer
  // again. `record_` changes only once the new record is on disk.
  RefitRecord record = record_;
  std::move(outcomes.begin(), outcomes.end(), std::back_inserter(record.outcomes));
  SHARD_CHECK(WriteRecord(files_, record));
  record_ = std::move(record);
  return Ok();
}

}  // namespace moepack
