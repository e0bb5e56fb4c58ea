#include "runtime-shim/refit/source_layers.h"

#include <utility>

#include "libshard/base/text/text.h"

namespace moepack::runtime {

Result<SourceLayers> SourceLayers::Make(const DeviceModel& model) {
  const Weights& weights = model.weights();
  SourceLayers made;
  made.model_ = &model;
  if (weights.later != nullptr) return made;
  LayerExperts all;
  for (const auto& [layer, count] : weights.moe_layers) {
    for (uint32_t id = 0; id < count; ++id) all[layer].push_back(id);
  }
  auto tables = model.TableOf(all);
  if (!tables)
    return Error{tables.error().code, tables.error().message,
                 "refit and calibration need the whole model: every expert of every layer"};
  made.loaded_ = std::move(*tables);
  return made;
}

Status SourceLayers::Enter(uint32_t layer) {
  if (model_->weights().later != nullptr) return Read(layer);
  table_ = loaded_[layer];
  return Ok();
}

Status SourceLayers::Read(uint32_t layer) {
  table_.clear();
  uploaded_.clear();
  read_.clear();
  if (!IsMoe(layer)) return Ok();
  const Weights& weights = model_->weights();
  SHARD_TRY(ExpertSet set, weights.later->Load(layer));
  read_.push_back(std::move(set));
  SHARD_TRY(DeviceSet device,
            UploadSet(weights.path, read_[0], model_->spec(), model_->executor()));
  SHARD_CHECK(model_->executor().Finish());
  uploaded_.push_back(std::move(device));
  const ExpertIds& ids = moepack::IdsOf(read_[0].experts_by_layer, layer);
  table_.assign(model_->spec().layer[layer].router.expert_count, nullptr);
  for (size_t index = 0; index < ids.size(); ++index) {
    if (ids[index] < table_.size()) table_[ids[index]] = &uploaded_[0].layers[layer][index];
  }
  for (uint32_t id = 0; id < table_.size(); ++id) {
    if (table_[id] != nullptr) continue;
    return Error{Code::kCorrupt, Cat(weights.path, ": layer ", layer, ": expert ", id,
                                     ": expected in the source, found none")};
  }
  return Ok();
}

std::span<const ExpertSet> SourceLayers::sets() const {
  return model_->weights().later != nullptr ? std::span<const ExpertSet>(read_)
                                            : std::span<const ExpertSet>(model_->weights().sets);
}

}  // namespace moepack::runtime
