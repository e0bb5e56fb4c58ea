#include "libshard/refit/refit_store.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"
#include "libshard/format/safetensors.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxRecordBytes = 256u << 20;
constexpr const char* kLayerKey = "layer";
constexpr const char* kGroupKey = "group";
constexpr const char* kExpertsKey = "experts";

using Shape = std::vector<uint64_t>;

// Which experts the file says it has; an error when it speaks of another layer or group.
Result<ExpertIds> ReadExperts(const std::string& where, const SafetensorsHeader& header,
                              uint32_t layer, uint32_t group) {
  for (const auto& [key, expected] : {std::pair(kLayerKey, layer), std::pair(kGroupKey, group)}) {
    const auto found = header.metadata.find(key);
    if (found == header.metadata.end() || found->second != Cat(expected))
      return Error{Code::kCorrupt,
                   Cat(where, ": ", key, ": expected ", expected, ", found ",
                       found == header.metadata.end() ? "none" : Quoted(found->second))};
  }
  const auto experts = header.metadata.find(kExpertsKey);
  if (experts == header.metadata.end())
    return Error{Code::kCorrupt, Cat(where, ": ", kExpertsKey, ": expected a list, found none")};
  return ParseIds(Cat(where, ": ", kExpertsKey), experts->second, kMaxExpertsPerLayer);
}

const RefittedArray* FindArray(std::string_view name) {
  for (const RefittedArray& array : RefittedArrays())
    if (array.name == name) return &array;
  return nullptr;
}

Status ReadArray(const ByteSource& file, const TensorEntry& tensor, RefittedExperts& out) {
  const std::string place = Cat(file.name(), ": tensor ", Quoted(tensor.name));
  const RefittedArray* array = FindArray(tensor.name);
  if (array == nullptr)
    return Error{Code::kCorrupt, Cat(place, ": expected an array of a refit, found another")};
  if (tensor.dtype != "F32")
    return Error{Code::kCorrupt, Cat(place, ": expected F32, found ", Shown(tensor.dtype))};
  // The other shapes follow from this one.
  if (tensor.name == "up" && tensor.shape.size() == 3) {
    out.width = tensor.shape[1];
    out.hidden = tensor.shape[2];
  }
  const Shape expected = array->shape(out.experts.size(), out.hidden, out.width);
  if (tensor.shape != expected)
    return Error{Code::kCorrupt, Cat(place, ": expected ", FormatShape(expected), ", found ",
                                     FormatShape(tensor.shape))};
  std::vector<float>& values = out.*array->values;
  values.resize(tensor.bytes / sizeof(float));
  return file.ReadAt(tensor.offset, std::as_writable_bytes(std::span(values)));
}

Result<RefittedExperts> ReadRefitted(const ByteSource& file, uint32_t layer, uint32_t group) {
  SHARD_TRY(const SafetensorsHeader header, ReadSafetensorsHeader(file, file.name()));
  RefittedExperts out;
  out.layer = layer;
  out.group = group;
  SHARD_TRY(out.experts, ReadExperts(file.name(), header, layer, group));
  for (const bool shapes : {true, false}) {
    for (const TensorEntry& tensor : header.tensors)
      if ((tensor.name == "up") == shapes) SHARD_CHECK(ReadArray(file, tensor, out));
  }
  SHARD_CHECK(CheckRefitted(file.name(), out));
  return out;
}

Status CheckArray(const std::string& where, const RefittedExperts& refitted,
                  const RefittedArray& array) {
  const std::vector<float>& values = refitted.*array.values;
  const std::string place = Cat(where, ": tensor ", Quoted(array.name));
  if (values.empty() && !array.required) return Ok();
  const Shape shape = array.shape(refitted.experts.size(), refitted.hidden, refitted.width);
  uint64_t expected = 1;
  for (uint64_t dimension : shape) expected *= dimension;
  if (values.empty() || values.size() != expected)
    return Error{Code::kCorrupt, Cat(place, ": expected ", FormatShape(shape), ", found ",
                                     values.size(), " values")};
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad == values.end()) return Ok();
  return Error{Code::kCorrupt, Cat(place, ": expected finite values, found ", *bad, " at value ",
                                   bad - values.begin(), " (layer ", refitted.layer, ", group ",
                                   refitted.group, ")")};
}

std::string HeaderOf(const RefittedExperts& refitted) {
  std::vector<TensorEntry> tensors;
  for (const RefittedArray& array : RefittedArrays()) {
    const std::vector<float>& values = refitted.*array.values;
    if (values.empty()) continue;
    TensorEntry& tensor = tensors.emplace_back();
    tensor.name = array.name;
    tensor.dtype = "F32";
    tensor.shape = array.shape(refitted.experts.size(), refitted.hidden, refitted.width);
    tensor.bytes = values.size() * sizeof(float);
  }
  return BuildSafetensorsHeader(tensors, {{kExpertsKey, FormatIds(refitted.experts)},
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

Error OtherRefit(const fs::path& directory, const char* what) {
  return Error{
      Code::kMismatch,
      Cat(Shown(directory.string()), ": ", what, ": expected those of this refit, found others"),
      "name another directory, or remove this one"};
}

Status CheckSameRefit(const fs::path& directory, const RefitRecord& a, const RefitRecord& b) {
  if (a.model != b.model) return OtherRefit(directory, "model");
  if (a.plan != b.plan) return OtherRefit(directory, "plan");
  if (a.steps != b.steps) return OtherRefit(directory, "steps");
  if (a.parameters != b.parameters) return OtherRefit(directory, "parameters");
  if (a.calibration != b.calibration) return OtherRefit(directory, "calibration texts");
  return Ok();
}

}  // namespace

std::string RefittedFileName(uint32_t layer, uint32_t group) {
  return Cat("layer-", ZeroPadded(layer, 3), "-group-", ZeroPadded(group, 3), ".safetensors");
}

const std::vector<RefittedArray>& RefittedArrays() {
  using R = RefittedExperts;
  static const auto of_gate = [](uint64_t n, uint64_t h, uint64_t f) { return Shape{n, f, h}; };
  static const auto of_down = [](uint64_t n, uint64_t h, uint64_t f) { return Shape{n, h, f}; };
  static const auto of_router = [](uint64_t n, uint64_t h, uint64_t) { return Shape{n, h}; };
  static const auto of_width = [](uint64_t n, uint64_t, uint64_t f) { return Shape{n, f}; };
  static const auto of_experts = [](uint64_t n, uint64_t, uint64_t) { return Shape{n}; };
  static const std::vector<RefittedArray> arrays = {
      {"gate", &R::gate, false, of_gate},
      {"up", &R::up, true, of_gate},
      {"down", &R::down, true, of_down},
      {"router", &R::router, true, of_router},
      {"router_bias", &R::router_bias, false, of_experts},
      {"selection_bias", &R::selection_bias, false, of_experts},
      {"gate_bias", &R::gate_bias, false, of_width},
      {"up_bias", &R::up_bias, false, of_width},
      {"down_bias", &R::down_bias, false, of_router},
  };
  return arrays;
}

Status CheckRefitted(const std::string& where, const RefittedExperts& refitted) {
  const ExpertIds& ids = refitted.experts;
  const bool ascend =
      std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
  if (ids.empty() || !ascend)
    return Error{Code::kCorrupt,
                 Cat(where, ": ", kExpertsKey, ": expected ascending ids, at least one, found ",
                     Quoted(FormatIds(ids)))};
  for (const RefittedArray& array : RefittedArrays())
    SHARD_CHECK(CheckArray(where, refitted, array));
  return Ok();
}

ExpertIds RefitSlots(const Plan& plan, size_t group, uint32_t layer) {
  ExpertIds slots = IdsOf(HeldBy(plan.groups[group]), layer);
  const OverlayPlan* overlay = plan.current_overlay();
  if (overlay == nullptr) return slots;
  slots = Difference(slots, IdsOf(overlay->experts, layer));
  return Difference(slots, IdsOf(FillOf(*overlay, group), layer));
}

std::string RefitPlanDigest(const Plan& plan) {
  Json groups = Json::array();
  for (const GroupPlan& group : plan.groups)
    groups.push_back(LayerExpertsToJson(HeldBy(group), plan.layers));
  const OverlayPlan* overlay = plan.current_overlay();
  Json document = Json::object();
  document["groups"] = std::move(groups);
  document["overlay"] = overlay == nullptr ? Json(nullptr) : OverlayToJson(*overlay, plan.layers);
  return Sha256Hex(WriteJson(document));
}

Result<RefitStore> RefitStore::Open(const fs::path& directory) {
  RefitStore store;
  store.directory_ = directory;
  SHARD_TRY(store.record_, ReadRecord(LocalTree(directory)));
  return store;
}

Result<std::optional<RefittedExperts>> RefitStore::Read(uint32_t layer, uint32_t group) const {
  const RefitOutcome* outcome = record_.Find(layer, group);
  if (outcome == nullptr || !outcome->accepted) return std::optional<RefittedExperts>();
  SHARD_TRY(const ByteSourcePtr file, LocalTree(directory_).Open(RefittedFileName(layer, group)));
  SHARD_TRY(RefittedExperts refitted, ReadRefitted(*file, layer, group));
  SHARD_TRY(const std::string sha256, Sha256OfStart(*file, file->size()));
  if (sha256 != outcome->sha256)
    return Error{Code::kCorrupt, Cat(file->name(), ": sha256: expected ", outcome->sha256,
                                     " (refit.json), found ", sha256)};
  SHARD_CHECK(file->CheckUnchanged());
  return std::optional(std::move(refitted));
}

Result<RefitStoreWriter> RefitStoreWriter::Open(const fs::path& directory, RefitRecord record) {
  RefitStoreWriter writer;
  writer.directory_ = directory;
  record.outcomes.clear();
  SHARD_TRY(const InsideDirectory files, InsideDirectory::OpenOrMake(directory));
  SHARD_TRY(const InsideDirectory::Kind there, files.KindOf(kRefitFile));
  if (there == InsideDirectory::Kind::kNothing) {
    writer.record_ = std::move(record);
    SHARD_CHECK(WriteRecord(files, writer.record_));
    return writer;
  }
  SHARD_TRY(writer.record_, ReadRecord(LocalTree(directory)));
  SHARD_CHECK(CheckSameRefit(directory, record, writer.record_));
  return writer;
}

bool RefitStoreWriter::Has(uint32_t layer) const {
  return std::any_of(record_.outcomes.begin(), record_.outcomes.end(),
                     [&](const RefitOutcome& outcome) { return outcome.layer == layer; });
}

Status RefitStoreWriter::Add(std::vector<RefitOutcome> outcomes,
                             const std::vector<RefittedExperts>& accepted) {
  SHARD_TRY(const InsideDirectory files, InsideDirectory::Open(directory_));
  for (RefitOutcome& outcome : outcomes) {
    outcome.sha256.clear();
    if (!outcome.accepted) continue;
    const auto experts =
        std::find_if(accepted.begin(), accepted.end(),
                     [&](const RefittedExperts& one) { return one.group == outcome.group; });
    const std::string name = RefittedFileName(outcome.layer, outcome.group);
    if (experts == accepted.end() || experts->layer != outcome.layer)
      return Error{Code::kInvalidArgument,
                   Cat(Shown(directory_.string()), ": ", name, ": expected experts, found none")};
    SHARD_CHECK(CheckRefitted(name, *experts));
    SHARD_TRY(outcome.sha256, WriteRefitted(files, *experts));
  }
  RefitRecord record = record_;
  std::move(outcomes.begin(), outcomes.end(), std::back_inserter(record.outcomes));
  SHARD_CHECK(WriteRecord(files, record));
  record_ = std::move(record);
  return Ok();
}

}  // namespace moepack
