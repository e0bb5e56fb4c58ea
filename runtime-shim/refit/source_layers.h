// The experts of the whole model, one layer at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {

class SourceLayers {
 public:
  // Borrows the model. kInvalidArgument unless every expert of every layer is loaded, or left in
  // the source (Weights::later).
  static Result<SourceLayers> Make(const DeviceModel& model);
  SourceLayers(SourceLayers&&) = default;

  bool IsMoe(uint32_t layer) const { return model_->trunk().layers[layer].moe(); }
  // Makes a layer the current one. What is in the source is read now, and what was read before is
  // released: nothing may use it any more. Errors are those of LoadWeights and UploadSet.
  Status Enter(uint32_t layer);
  // The experts of the current layer by id; empty for a layer without experts.
  const LayerExpertTable& table() const { return table_; }
  // The sets that hold the current layer.
  std::span<const ExpertSet> sets() const;

 private:
  SourceLayers() = default;
  Status Read(uint32_t layer);

  const DeviceModel* model_ = nullptr;
  std::vector<LayerExpertTable> loaded_;  // of all layers; empty if experts are in the source
  // The current layer, from the source; the executor may borrow the set.
  std::vector<ExpertSet> read_;
  std::vector<DeviceSet> uploaded_;
  LayerExpertTable table_;
};

}  // namespace moepack::runtime
