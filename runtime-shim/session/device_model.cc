#include "runtime-shim/session/device_model.h"

#include <algorithm>

#include "libshard/base/files/mapped_file.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {

namespace {

uint64_t TrunkBytes(const Weights& weights) {
  uint64_t bytes = 0;
  for (const HostTensor& tensor : weights.trunk) bytes += tensor.bytes.size();
  return bytes;
}

// Takes the number of experts from each layer's router, because GGUF has one key for all layers.
Status SetExperts(const Weights& weights, ModelSpec& spec) {
  for (const auto& [layer, expert_count] : weights.moe_layers) {
    if (layer >= spec.layers) {
      return Error{Code::kCorrupt, Cat(weights.path, ": layers with experts: expected below ",
                                       spec.layers, ", found ", layer)};
    }
    Routing& router = spec.layer[layer].router;
    router.expert_count = expert_count;
    if (router.top_k <= expert_count) continue;
    return Error{Code::kCorrupt,
                 Cat(weights.path, ": layer ", layer, ": experts per token: expected ", "at most ",
                     expert_count, ", found ", router.top_k)};
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(std::shared_ptr<const Weights> weights,
                                           Executor& executor) {
  SHARD_TRY(ModelSpec spec, ReadModelSpec(weights->path, weights->metadata));
  SHARD_CHECK(SetExperts(*weights, spec));
  auto model = std::make_unique<DeviceModel>(std::move(weights), std::move(spec), executor);
  SHARD_CHECK(model->Upload());
  return std::unique_ptr<Model>(std::move(model));
}

Status DeviceModel::CheckRoom(uint64_t bytes, const std::string& what) const {
  if (bytes <= executor_.available()) return Ok();
  return Error{Code::kUnavailable,
               Cat(weights_->path, ": ", what, ": expected ", bytes, " bytes free on ",
                   executor_.description(), ", found ", executor_.available()),
               "load one group only, or use --executor cpu"};
}

// Asked of all tensors before any of them is uploaded, which may take minutes.
Status DeviceModel::CheckTypes() const {
  const auto check = [this](const std::vector<HostTensor>& tensors) -> Status {
    for (const HostTensor& tensor : tensors) {
      if (executor_.Supports(tensor.format) || HoldsExpertIds(tensor.name)) continue;
      return Error{Code::kUnsupported, Cat(weights_->path, ": ", Quoted(tensor.name), ": executor ",
                                           executor_.name(), " has no ", tensor.format->name)};
    }
    return Ok();
  };
  SHARD_CHECK(check(weights_->trunk));
  for (const ExpertSet& set : weights_->sets) {
    SHARD_CHECK(check(set.tensors));
    SHARD_CHECK(check(set.routers));
  }
  return weights_->later != nullptr ? check(weights_->later->tensors) : Ok();
}

Status DeviceModel::Upload() {
  SHARD_CHECK(CheckTypes());
  uint64_t bytes = TrunkBytes(*weights_);
  for (const ExpertSet& set : weights_->sets) bytes += set.bytes();
  SHARD_CHECK(CheckRoom(bytes, "weights"));
  SHARD_TRY(trunk_, UploadTrunk(*weights_, spec_, executor_));
  for (const ExpertSet& set : weights_->sets) {
    SHARD_TRY(DeviceSet device, UploadSet(weights_->path, set, spec_, executor_));
    sets_.push_back(std::move(device));
  }
  SHARD_CHECK(executor_.Finish());
  // A file that was truncated during the upload was read as zeros (mapped_file.h).
  return CheckMappedFiles();
}

uint64_t DeviceModel::device_bytes() const {
  uint64_t bytes = trunk_.bytes;
  for (const DeviceSet& set : sets_) bytes += set.bytes;
  return bytes;
}

uint64_t DeviceModel::widest_expert() const {
  uint64_t widest = weights_->later != nullptr ? weights_->later->widest() : 0;
  for (const DeviceSet& set : sets_) {
    for (const std::vector<MlpWeights>& layer : set.layers) {
      // The experts of a layer are slices of one tensor, and so equally wide.
      if (!layer.empty()) widest = std::max<uint64_t>(widest, layer[0].inner());
    }
  }
  return widest;
}

// Groups come before the overlay. Without a refit, an expert that several sets hold is the same in
// all of them; with one, the group's own counts, so the order matters.
Result<std::vector<const DeviceSet*>> DeviceModel::SetsFor(std::optional<uint32_t> group) const {
  std::vector<const DeviceSet*> sets;
  const DeviceSet* own = nullptr;
  size_t groups = 0;
  for (const DeviceSet& set : sets_) {
    groups += set.group ? 1 : 0;
    if (set.group && (!own || set.group == group)) own = &set;
  }
  const bool differ = groups > 1 && !weights_->refit_version.empty();
  if (differ && (!group || own->group != group)) {
    return Error{Code::kInvalidArgument,
                 Cat(weights_->path,
                     ": group: expected one that is loaded, as a refit gave every group experts "
                     "of its own, found ",
                     group ? Cat(*group) : "none"),
                 "choose one with --group; the whole model is in the source only"};
  }
  if (differ) sets.push_back(own);
  for (const DeviceSet& set : sets_)
    if (!differ || !set.group) sets.push_back(&set);
  return sets;
}

LayerExpertTable DeviceModel::LoadedExperts(const std::vector<const DeviceSet*>& sets,
                                            uint32_t layer) const {
  LayerExpertTable table(spec_.layer[layer].router.expert_count, nullptr);
  for (const DeviceSet* set : sets) {
    const ExpertIds& ids = moepack::IdsOf(set->experts_by_layer, layer);
    for (size_t index = 0; index < ids.size(); ++index) {
      if (ids[index] < table.size() && table[ids[index]] == nullptr)
        table[ids[index]] = &set->layers[layer][index];
    }
  }
  return table;
}

Result<EligibleTables> DeviceModel::TablesOf(const LayerExperts& eligible,
                                             std::optional<uint32_t> group) const {
  SHARD_TRY(const std::vector<const DeviceSet*> sets, SetsFor(group));
  EligibleTables out;
  out.ids = eligible;
  out.tables.resize(spec_.layers);
  out.routers.assign(spec_.layers, nullptr);
  for (uint32_t layer = 0; layer < spec_.layers; ++layer) {
    if (!trunk_.layers[layer].moe()) continue;
    const ExpertIds& ids = moepack::IdsOf(eligible, layer);
    const uint32_t top_k = spec_.layer[layer].router.top_k;
    if (ids.size() < top_k) {
      return Error{Code::kInvalidArgument,
                   Cat(weights_->path, ": layer ", layer, ": eligible experts: expected at least ",
                       top_k, " (experts per token), found ", ids.size())};
    }
    const LayerExpertTable loaded = LoadedExperts(sets, layer);
    out.tables[layer].assign(loaded.size(), nullptr);
    for (const uint32_t id : ids) {
      if (id >= loaded.size() || loaded[id] == nullptr) {
        return Error{Code::kInvalidArgument, Cat(weights_->path, ": layer ", layer, ": expert ", id,
                                                 ": expected to be loaded, found in no part")};
      }
      out.tables[layer][id] = loaded[id];
    }
    for (const DeviceSet* set : sets) {
      const auto own = set->routers.find(layer);
      if (own != set->routers.end()) out.routers[layer] = &own->second;
    }
  }
  return out;
}

}  // namespace moepack::runtime
