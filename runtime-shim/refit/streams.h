// The streams of the whole model and of nodes over all calibration text, one layer at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "runtime-shim/refit/calibration.h"
#include "runtime-shim/refit/row_store.h"
#include "runtime-shim/refit/window_batches.h"
#include "runtime-shim/session/layer_pass.h"

namespace moepack::runtime {

// The data from which a node's experts of a layer are refitted. Row t is token t of the text.
struct NodeRowsOfLayer {
  RowStore inputs;         // [T, H], the inputs of the experts
  RowStore router_inputs;  // [T, R], if they are others; otherwise without rows
  RowStore targets;        // [T, H], what the experts should produce together
  RowStore outputs;        // [T, H], room for what they produce

  const RowStore& inputs_of_router() const {
    return router_inputs.count() > 0 ? router_inputs : inputs;
  }
};

class Streams {
 public:
  // Borrows model and text. Everything starts with the embeddings.
  static Result<Streams> Make(const DeviceModel& model, const Calibration& text, size_t nodes,
                              uint64_t memory, RowRoom& room);

  // Calls `ran` with the number of tokens that ran. May be empty.
  void WatchTokens(PieceDone ran) { ran_ = std::move(ran); }

  // Begins a layer.
  Status Open(uint32_t layer);
  // Runs the whole model's stream through the layer.
  Status RunWhole(const LayerExpertTable& experts);
  // Runs a node's stream through a layer without experts.
  Status RunDense(size_t node);
  // Runs a node's stream up to its experts, after RunWhole, and sets inputs and targets: Y =
  // (x_full,after - x_mid) / residual_scale - shared experts. Where a norm or a projection follows
  // the sum of the experts, Y is the whole model's sum.
  Status RunToExperts(size_t node);
  // Adds the outputs to the stream of that node: runs the rest of the layer.
  Status AddOutputs(size_t node);

  NodeRowsOfLayer& rows() { return rows_; }
  // |Y|^2 of each token.
  const std::vector<float>& target_squares() const { return squares_; }

 private:
  Streams(const DeviceModel& model, NodeRowsOfLayer rows, RowStore whole)
      : model_(&model), rows_(std::move(rows)), whole_(std::move(whole)) {}
  // Sets rows of the targets, and their squares.
  Status SetTargets(uint64_t first, std::span<const float> targets);
  Status RunToOwnSpace(const WindowBatch& batch, std::span<float> stream);
  Status RunToStream(const WindowBatch& batch, std::span<float> stream);
  Status Embed();
  using RunBatch = std::function<Status(const WindowBatch& batch, std::span<float> stream)>;
  // Reads the stream of each batch, runs it, and writes the result.
  Status ForEachBatch(RowStore& stream, const RunBatch& run);

  const DeviceModel* model_;
  NodeRowsOfLayer rows_;
  RowStore whole_;
  std::vector<RowStore> nodes_;
  WindowBatches windows_;
  std::vector<LayerPass> pass_;  // of the current layer: one, or none at first
  std::vector<float> squares_;
  PieceDone ran_;
};

}  // namespace moepack::runtime
