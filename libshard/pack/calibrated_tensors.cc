#include "libshard/pack/calibrated_tensors.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// A file of the store as a source, after its check.
Result<SourceFile> SourceOf(const CalibratedStore& store, const std::string& name,
                            const CalibratedOutcome& layer) {
  SourceFile file;
  file.name = name;
  file.tree = std::make_shared<const LocalTree>(store.directory());
  SHARD_TRY(const ByteSourcePtr source, file.tree->Open(file.name));
  file.path = source->name();
  file.size = source->size();
  file.header_sha256 = layer.sha256;
  file.identity = source->identity();
  return file;
}

// The experts of a tensor in a group's file, one after another.
const CalibratedTensor* FindTensor(const CalibratedOutcome& layer, std::string_view name) {
  const auto found =
      std::find_if(layer.tensors.begin(), layer.tensors.end(),
                   [&](const CalibratedTensor& tensor) { return tensor.name == name; });
  return found == layer.tensors.end() ? nullptr : &*found;
}

ExpertIds IdsOfExperts(const CalibratedOutcome& layer) {
  ExpertIds ids;
  for (const CalibratedExpert& expert : layer.experts) ids.push_back(expert.id);
  return ids;
}

// A layer of a group has the experts that the refit changed there, and nothing else.
Status CheckLayerOfGroup(const std::string& where, const RefitRecord& refit, uint32_t group,
                         const CalibratedOutcome& layer) {
  const std::string place = Cat(where, ": group ", group, ", layer ", layer.layer);
  const RefitOutcome* const outcome = refit.Find(layer.layer, group);
  const ExpertIds expected = outcome == nullptr ? ExpertIds() : outcome->expert_ids;
  const ExpertIds ids = IdsOfExperts(layer);
  if (ids != expected)
    return Error{Code::kMismatch, Cat(place, ": experts: expected ", Quoted(FormatIds(expected)),
                                      ", found ", Quoted(FormatIds(ids)))};
  if (!ids.empty() || layer.tensors.empty()) return Ok();
  return Error{Code::kMismatch,
               Cat(place, ": tensors: expected none, found ", layer.tensors.size())};
}

// The groups of a record must be those of the refit, with all that it changed.
Status CheckGroups(const std::string& where, const CalibratedRecord& record,
                   const RefitRecord& refit) {
  const std::string version = RefitVersion(refit);
  if (record.groups->refit != version)
    return Error{Code::kMismatch,
                 Cat(where, ": refit of the groups: expected ", version,
                     " (the refit store given), found ", record.groups->refit),
                 "the experts of the groups were encoded for another refit"};
  for (const RefitOutcome& outcome : refit.outcomes) {
    if (record.FindInGroup(outcome.group, outcome.layer) != nullptr) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": group ", outcome.group, ", layer ", outcome.layer,
                     ": expected what became of its refitted experts, found none"),
                 "the calibration was stopped: run the same command again to resume it"};
  }
  for (uint32_t group = 0; group < record.groups->layers.size(); ++group) {
    for (const CalibratedOutcome& layer : record.groups->layers[group])
      SHARD_CHECK(CheckLayerOfGroup(where, refit, group, layer));
  }
  return Ok();
}

// The order of the tensor's first range.
uint64_t FirstOrderOf(const GgufTensor& tensor) {
  const uint64_t first = !tensor.rows.empty()      ? tensor.rows[0].order
                         : !tensor.sources.empty() ? tensor.sources[0].order
                                                   : 0;
  return first & ~(OrderOf(1, 0) - 1);
}

}  // namespace

Result<CalibratedTensors> CalibratedTensors::Of(const CalibratedStore& store,
                                                const MadeFor& made_for, uint32_t first_file) {
  CalibratedTensors out;
  out.record_ = store.record();
  out.where_ = (store.directory() / kCalibratedFile).string();
  out.first_file_ = first_file;
  const std::vector<CalibratedOutcome>& layers = out.record_.layers;
  if (out.record_.model != made_for.model)
    return Error{Code::kMismatch,
                 Cat(Shown(out.where_), ": model: expected ", made_for.model,
                     " (the source given), found ", out.record_.model),
                 "the tensors were encoded for another model"};
  if (!out.record_.finished())
    return Error{Code::kCorrupt,
                 Cat(Shown(out.where_), ": layers: expected ", out.record_.layer_count + 1,
                     " with the output, found ", layers.size()),
                 "the calibration was stopped: run the same command again to resume it"};
  if (made_for.refit == nullptr) out.record_.groups.reset();
  if (out.record_.groups) SHARD_CHECK(CheckGroups(Shown(out.where_), out.record_, *made_for.refit));
  SHARD_CHECK(out.AddFiles(store));
  return out;
}

Status CalibratedTensors::AddFiles(const CalibratedStore& store) {
  std::vector<std::function<Result<SourceFile>()>> checks;
  for (const CalibratedOutcome& layer : record_.layers) {
    if (layer.tensors.empty()) continue;
    numbers_[layer.layer] = static_cast<uint32_t>(checks.size());
    checks.push_back([&store, &layer]() -> Result<SourceFile> {
      SHARD_CHECK(store.Check(layer.layer));
      return SourceOf(store, CalibratedFileName(layer.layer), layer);
    });
  }
  const size_t groups = record_.groups ? record_.groups->layers.size() : 0;
  for (uint32_t group = 0; group < groups; ++group) {
    for (const CalibratedOutcome& layer : record_.groups->layers[group]) {
      if (layer.tensors.empty()) continue;
      numbers_in_groups_[{group, layer.layer}] = static_cast<uint32_t>(checks.size());
      checks.push_back([&store, &layer, group]() -> Result<SourceFile> {
        SHARD_CHECK(store.CheckInGroup(group, layer.layer));
        return SourceOf(store, CalibratedGroupFileName(group, layer.layer), layer);
      });
    }
  }
  files_.resize(checks.size());
  return ParallelFor(checks.size(), ThreadsForFiles(0), [&](size_t i) -> Status {
    SHARD_TRY(files_[i], checks[i]());
    return Ok();
  });
}

CalibratedTensors CalibratedTensors::Stated(CalibratedRecord record) {
  CalibratedTensors out;
  out.record_ = std::move(record);
  out.where_ = kCalibratedFile;
  out.stated_ = true;
  return out;
}

ExpertIds CalibratedTensors::RefittedIn(uint32_t group, const GgufTensor& tensor) const {
  const CalibratedOutcome* const layer =
      tensor.layer ? record_.FindInGroup(group, *tensor.layer) : nullptr;
  if (layer == nullptr || FindTensor(*layer, tensor.name) == nullptr) return {};
  return IdsOfExperts(*layer);
}

Result<std::optional<GgufTensor>> CalibratedTensors::Choose(const GgufTensor& tensor,
                                                            const quant::Format* type,
                                                            std::optional<uint32_t> group) const {
  const CalibratedRecord::Place place = record_.Find(tensor.name);
  const ExpertIds refitted = group ? RefittedIn(*group, tensor) : ExpertIds();
  const std::string where = Cat(Shown(where_), ": tensor ", Quoted(tensor.name));
  if (place.tensor == nullptr && !refitted.empty())
    return Error{mismatch(),
                 Cat(where, ": expected it in its layer, as in group ", *group, ", found none")};
  if (place.tensor == nullptr || type != tensor.type) return std::optional<GgufTensor>();
  if (type != place.tensor->type)
    return Error{mismatch(),
                 Cat(where, ": expected ", type->name, ", found ", place.tensor->type->name),
                 "the tensors were encoded for other types"};
  if (tensor.bytes() != place.tensor->bytes)
    return Error{mismatch(),
                 Cat(where, ": expected ", tensor.bytes(), " bytes, found ", place.tensor->bytes)};
  const uint32_t parts = std::max<uint32_t>(tensor.expert_count, 1);
  const uint64_t each = place.tensor->bytes / parts;
  if (!refitted.empty()) SHARD_CHECK(CheckInGroup(tensor, *group, each));
  if (stated_) return std::optional<GgufTensor>();
  GgufTensor out = tensor;
  out.stored = type;
  out.sources.clear();
  out.rows.clear();
  out.reader = nullptr;
  out.literal.clear();
  out.importance = nullptr;
  const uint32_t file = first_file_ + numbers_.at(place.layer->layer);
  for (uint32_t part = 0; part < parts; ++part)
    out.sources.push_back(
        {file, place.tensor->offset + part * each, each, FirstOrderOf(tensor) | part});
  for (size_t i = 0; i < refitted.size(); ++i) {
    SourceRange& source = out.sources[refitted[i]];
    source.file = first_file_ + numbers_in_groups_.at({*group, *tensor.layer});
    source.offset =
        FindTensor(*record_.FindInGroup(*group, *tensor.layer), tensor.name)->offset + i * each;
  }
  return std::optional(std::move(out));
}

// `each`: the bytes of an expert.
Status CalibratedTensors::CheckInGroup(const GgufTensor& tensor, uint32_t group,
                                       uint64_t each) const {
  const CalibratedOutcome& layer = *record_.FindInGroup(group, *tensor.layer);
  const CalibratedTensor& own = *FindTensor(layer, tensor.name);
  const std::string where = Cat(Shown(where_), ": group ", group, ": tensor ", Quoted(tensor.name));
  if (own.type != tensor.type)
    return Error{mismatch(),
                 Cat(where, ": expected ", tensor.type->name, ", found ", own.type->name)};
  const uint64_t bytes = layer.experts.size() * each;
  if (own.bytes != bytes)
    return Error{mismatch(), Cat(where, ": expected ", bytes, " bytes, found ", own.bytes)};
  if (layer.experts.back().id < tensor.expert_count) return Ok();
  return Error{mismatch(), Cat(where, ": experts: expected ids below ", tensor.expert_count,
                               ", found ", layer.experts.back().id)};
}

Status CalibratedTensors::CheckAllIn(const GgufModel& model) const {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : model.tensors) names.insert(tensor.name);
  const auto check = [&](const std::string& where, const CalibratedOutcome& layer) -> Status {
    for (const CalibratedTensor& tensor : layer.tensors) {
      if (names.contains(tensor.name)) continue;
      return Error{mismatch(), Cat(where, ": tensor ", Quoted(tensor.name),
                                   ": expected one of the model, found another")};
    }
    return Ok();
  };
  for (const CalibratedOutcome& layer : record_.layers) SHARD_CHECK(check(Shown(where_), layer));
  const size_t groups = record_.groups ? record_.groups->layers.size() : 0;
  for (uint32_t group = 0; group < groups; ++group) {
    for (const CalibratedOutcome& layer : record_.groups->layers[group])
      SHARD_CHECK(check(Cat(Shown(where_), ": group ", group), layer));
    SHARD_CHECK(CheckHasExperts(model, group));
  }
  return Ok();
}

Status CalibratedTensors::CheckHasExperts(const GgufModel& model, uint32_t group) const {
  for (const GgufTensor& tensor : model.tensors) {
    if (!tensor.layer || tensor.expert_count == 0) continue;
    const CalibratedOutcome* const layer = record_.FindInGroup(group, *tensor.layer);
    if (layer == nullptr || layer->experts.empty()) continue;
    if (record_.Find(tensor.name).tensor == nullptr || FindTensor(*layer, tensor.name) != nullptr)
      continue;
    return Error{mismatch(), Cat(Shown(where_), ": group ", group, ": tensor ", Quoted(tensor.name),
                                 ": expected experts ", Quoted(FormatIds(IdsOfExperts(*layer))),
                                 " of it, as in its layer, found none")};
  }
  return Ok();
}

}  // namespace moepack
