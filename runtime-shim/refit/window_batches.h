// The windows of calibration text in the batches in which they run through a layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/refit/calibration.h"
#include "runtime-shim/session/layer_pass.h"

namespace moepack::runtime {

// Windows that run side by side, and their rows.
struct WindowBatch {
  std::vector<std::span<const uint32_t>> windows;
  uint64_t first = 0;
  size_t tokens = 0;
};

struct WindowBatches {
  std::vector<WindowBatch> batches;
  LayerPass::Room room;

  // As many windows side by side as `memory` bytes hold. Borrows the text.
  static WindowBatches Of(const DeviceModel& model, const Calibration& text, uint64_t memory);
};

}  // namespace moepack::runtime
