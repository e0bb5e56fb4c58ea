// The experts of the whole model, layer by layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/model/layer_weights.h"
#include "runtime-shim/refit/refill.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {

class SourceLayers {
 public:
  // Borrows the model. kInvalidArgument unless every expert of every layer is loaded.
  static Result<SourceLayers> Open(const DeviceModel& model);

  bool IsMoe(uint32_t layer) const { return model_->trunk().layers[layer].moe(); }
  // The experts of a layer by id; empty for a layer without.
  const LayerExpertTable& TableOf(uint32_t layer) const { return tables_[layer]; }
  NeuronSource NeuronsOf(uint32_t layer) const;

 private:
  SourceLayers() = default;
  const DeviceModel* model_ = nullptr;
  std::vector<LayerExpertTable> tables_;
};

}  // namespace moepack::runtime
