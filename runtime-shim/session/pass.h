// One pass of a model over tokens of one or more sessions.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

class Pass {
 public:
  // Borrows the model and what the segments borrow.
  Pass(const DeviceModel& model, std::vector<Segment> segments)
      : model_(model), forward_(model), segments_(std::move(segments)) {}

  // Forward::WatchLayers.
  void WatchLayers(std::function<void(double share)> ran) { forward_.WatchLayers(std::move(ran)); }
  // Runs the first `layers` layers (0: all). kCorrupt, with the layer and the operation, if
  // something that is not finite keeps routers from choosing.
  Status Run(uint32_t layers);
  // Reads the logits [rows, vocabulary] of some rows of the pass, after all layers have run.
  // kCorrupt for NaN among them, with the layer and the operation where it first appeared.
  Status Read(std::span<const uint32_t> rows, std::span<float> logits);
  const Segment& segment(size_t index) const { return segments_[index]; }

 private:
  Status ReadSome(std::span<const uint32_t> rows, std::span<float> logits);

  const DeviceModel& model_;
  Forward forward_;
  std::vector<Segment> segments_;
};

}  // namespace moepack::runtime
