#include "manifest/overlay/expert_sources.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "libshard/base/text/text.h"
#include "libshard/model/layer_experts.h"
#include "libshard/pack/slice.h"
#include "libshard/pack/slice_gguf.h"
#include "manifest/document/corrupt.h"
#include "manifest/node/node_files.h"

namespace moepack::manifest {
namespace {

// Replaces the numbers in a name, so that it is the same for all experts and layers.
std::string WithoutNumbers(const std::string& name) {
  std::vector<std::string> parts = moepack::Split(name, '.');
  for (std::string& part : parts) {
    if (ParseUint(part)) part.assign(1, '*');
  }
  return moepack::Join(parts, ".");
}

// The parts that are the first to hold one of the ids.
std::vector<const PartTensor*> FirstHolders(const std::vector<const PartTensor*>& parts,
                                            const ExpertIds& ids) {
  std::vector<const PartTensor*> holders;
  ExpertIds left = ids;
  for (const PartTensor* part : parts) {
    ExpertIds rest = moepack::Difference(left, part->record->expert_ids);
    if (rest.size() == left.size()) continue;
    holders.push_back(part);
    left = std::move(rest);
  }
  return holders;
}

}  // namespace

void ExpertSources::Add(OpenedBundle bundle) {
  const auto number = static_cast<uint32_t>(files_.size());
  model_ = bundle.model;
  architecture_ = bundle.metadata.Architecture();
  for (PartTensor& part : bundle.tensors) {
    if (!part.record->layer) continue;
    HeldTensor held;
    held.layer = *part.record->layer;
    held.shape = shapes_.emplace(WithoutNumbers(part.entry.name), shapes_.size()).first->second;
    const TensorClass found = matcher_.Classify(part.entry.name);
    const bool known = found.rule != nullptr;
    if (known && found.expert) held.expert = found.expert;
    held.cut = !held.expert && known && AxisIn(part.entry.shape, found.rule->expert_axis) == 0u;
    held.part = std::move(part);
    held.part.entry.file = number;
    tensors_.push_back(std::move(held));
  }
  files_.push_back(std::move(bundle.source));
}

LayerExperts ExpertSources::Held() const {
  std::map<uint32_t, std::map<size_t, std::set<uint32_t>>> by_shape;
  for (const HeldTensor& held : tensors_) {
    const ExpertIds& ids = held.part.record->expert_ids;
    if (ids.empty()) continue;  // of all experts of the layer together
    std::set<uint32_t>& expert_ids = by_shape[held.layer][held.shape];
    // Experts along another axis cannot be taken out of a file.
    if (held.cut || held.expert) expert_ids.insert(ids.begin(), ids.end());
  }
  LayerExperts out;
  for (const auto& [layer, shapes] : by_shape) {
    const std::set<uint32_t>& first = shapes.begin()->second;
    for (const uint32_t id : first) {
      const bool whole = std::all_of(shapes.begin(), shapes.end(),
                                     [&](const auto& one) { return one.second.contains(id); });
      if (whole) out[layer].push_back(id);
    }
  }
  return out;
}

void ExpertSources::CopyWhole(const HeldTensor& held, GatheredFile& out) const {
  const PartTensor& part = held.part;
  OutputTensor tensor;
  tensor.entry = part.entry;
  tensor.sources = {{part.entry.file, part.entry.offset, part.entry.bytes}};
  tensor.layer = static_cast<uint16_t>(held.layer);
  tensor.expert_ids = part.record->expert_ids;
  if (!part.record->source.empty()) tensor.SetSourceName(part.record->source);
  out.digests[part.entry.name] = part.record->xxh3;
  out.file.tensors.push_back(std::move(tensor));
}

// `parts` are the tensors of one name, and `ids` is what the new file holds of the layer.
Status ExpertSources::AddTensor(const std::vector<const HeldTensor*>& parts, const ExpertIds& ids,
                                GatheredFile& out) const {
  for (const HeldTensor* held : parts) {
    const ExpertIds& own = held->part.record->expert_ids;
    if (!held->expert && !own.empty() && own != ids) continue;
    CopyWhole(*held, out);
    return Ok();
  }
  std::vector<const PartTensor*> holders;
  for (const HeldTensor* held : parts) {
    if (held->cut) holders.push_back(&held->part);
  }
  holders = FirstHolders(holders, ids);
  if (holders.empty()) {
    return Error{Code::kMismatch,
                 Cat(files_[parts[0]->part.entry.file].path.string(), ": tensor ",
                     Quoted(parts[0]->part.entry.name), ": expected experts ", FormatIds(ids),
                     ", found others"),
                 kCorruptHint};
  }
  const std::string where = files_[holders[0]->entry.file].path.string();
  SHARD_TRY(OutputTensor merged, MergeExperts(where, holders, ids));
  if (!holders[0]->record->source.empty()) merged.SetSourceName(holders[0]->record->source);
  for (const PartTensor* part : holders) out.cut.push_back(*part);
  out.file.tensors.push_back(std::move(merged));
  return Ok();
}

Result<GatheredFile> ExpertSources::LayOut(const OverlayPlan& overlay, uint64_t alignment) {
  const ExpertPart part{Role::kOverlay, std::nullopt, OverlayDirectory(overlay.version),
                        HeldBy(overlay), overlay.version};
  using Key = std::tuple<uint32_t, uint32_t, size_t, std::string>;  // layer, expert, shape, name
  std::map<Key, std::vector<const HeldTensor*>> by_name;
  for (const HeldTensor& held : tensors_) {
    const ExpertIds& ids = moepack::IdsOf(part.experts_by_layer, held.layer);
    const bool wanted = held.expert ? moepack::Contains(ids, *held.expert) : !ids.empty();
    if (!wanted) continue;
    by_name[{held.layer, held.expert.value_or(0), held.shape, held.part.entry.name}].push_back(
        &held);
  }
  GatheredFile out;
  for (const auto& [key, parts] : by_name) {
    const ExpertIds& ids = moepack::IdsOf(part.experts_by_layer, std::get<0>(key));
    SHARD_CHECK(AddTensor(parts, ids, out));
  }
  const bool gguf = manifest_.is_gguf();
  out.file.path = PartFileName({part.directory, "experts", gguf ? ".gguf" : ".safetensors"}, 1, 1);
  out.file.role = Role::kOverlay;
  if (gguf) {
    const LayerCounts& layers = manifest_.plan.layers;
    LayOutGguf(out.file, GgufPartMetadata({architecture_, model_}, part, layers), alignment);
  } else {
    LayOutSafetensors(out.file, SafetensorsPartMetadata(model_, part, manifest_.plan.layers));
  }
  return out;
}

}  // namespace moepack::manifest
