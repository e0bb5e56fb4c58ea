// Runs a model one layer at a time over many windows, whose rows the caller keeps between the
// layers: for work that has to see all texts in a layer before the next one runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

// The tokens of windows that run side by side, each from position 0.
using WindowTokenSpans = std::span<const std::span<const uint32_t>>;

// Whether the experts' inputs are not the router's, or a norm or a projection follows their sum, or
// the stream does not just grow.
inline bool SetsExpertsApart(const ModelSpec& spec) {
  return spec.parallel_experts || spec.expert_space > 0 || spec.norms_after || spec.routes_early ||
         spec.residual_block > 0;
}

class LayerPass {
 public:
  struct Room {
    uint32_t context = 1;  // of the longest window
    uint32_t windows = 1;  // that run side by side
  };
  // Borrows the model, whose scratch it enlarges as needed. kUnavailable if there is no room.
  static Result<LayerPass> Open(const DeviceModel& model, uint32_t layer, const Room& room);

  // All rows are those of the tokens of all windows, one window after another. Numerical errors are
  // kCorrupt, with the layer and the operation where the first value that is not finite appeared. A
  // row of a stream has ModelSpec::stream_width values.

  // Sets the stream before the first layer.
  Status Embed(WindowTokenSpans windows, std::span<float> stream);
  // Runs the layer; its routers pick among `experts`, by id, which is empty for a layer without
  // experts. `sums`, if not empty, gets the weighted sums of the experts' outputs.
  Status RunLayer(WindowTokenSpans windows, const LayerExpertTable& experts,
                  std::span<float> stream, std::span<float> sums = {});
  // Runs the layer up to its experts.
  struct NodeRows {
    std::span<float> stream;  // in: before the layer; out: after attention
    std::span<float> inputs;  // out: the inputs of the experts, and of the router
    std::span<float> router;  // out, if not empty: the inputs of the router if they are others
    std::span<float> shared;  // out, if not empty: output of shared experts; 0 without any
  };
  Status RunToExperts(WindowTokenSpans windows, const NodeRows& rows);
  // Runs the rest of the layer. `stream` is in: after attention; out: after the layer.
  Status AddExperts(WindowTokenSpans windows, std::span<const float> sums, std::span<float> stream);
  // Puts the inputs of the output's matrix, of a stream after the last layer, into `inputs`.
  Status NormOutputs(std::span<const float> stream, std::span<float> inputs);

 private:
  LayerPass(const DeviceModel& model, uint32_t layer) : model_(model), layer_(layer) {}
  std::vector<Segment> SegmentsOf(WindowTokenSpans windows, const EligibleTables* eligible);
  // Calls `run`, and once more with every operation watched if that fails or gives rows that are
  // not finite.
  template <class Run>
  Status Watched(std::span<float> stream, const Run& run);
  Status ReadRows(const Rows& rows, std::span<float> values) const;

  const DeviceModel& model_;
  uint32_t layer_;
  std::vector<Caches> caches_;  // by window
  Turns turns_;
};

}  // namespace moepack::runtime
