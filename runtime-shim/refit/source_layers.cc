#include "runtime-shim/refit/source_layers.h"

#include "libshard/base/text/text.h"

namespace moepack::runtime {

Result<SourceLayers> SourceLayers::Open(const DeviceModel& model) {
  const Weights& weights = model.weights();
  LayerExperts all;
  for (const auto& [layer, count] : weights.moe_layers) {
    for (uint32_t id = 0; id < count; ++id) all[layer].push_back(id);
  }
  SourceLayers made;
  made.model_ = &model;
  auto tables = model.TableOf(all);
  if (!tables)
    return Error{tables.error().code, tables.error().message,
                 "a refit needs the whole model: every expert of every layer"};
  made.tables_ = std::move(*tables);
  return made;
}

NeuronSource SourceLayers::NeuronsOf(uint32_t layer) const {
  const Weights& weights = model_->weights();
  return {tables_[layer], &weights, weights.sets};
}

}  // namespace moepack::runtime
