// The two streams of a calibration over all of its text, one layer at a time: that of the model in
// full precision, and that of its encoded layers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/layer_experts.h"
#include "runtime-shim/refit/calibration.h"
#include "runtime-shim/refit/kept_pages.h"
#include "runtime-shim/refit/row_store.h"
#include "runtime-shim/refit/source_layers.h"
#include "runtime-shim/refit/window_batches.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {

class TwoStreams {
 public:
  // What the watch has on the executor goes before that does.
  ~TwoStreams() {
    watch().Stop();
    watch().Forget();
  }

  // Which stream.
  enum class Of : uint8_t { kFull, kEncoded };

  // Borrows everything. Both streams start with the model's embeddings. `passes`: how often the
  // text runs through a layer, about, for the progress. Errors are those of CalibrationTextOf, and
  // kUnsupported for models that cannot be calibrated.
  static Result<std::unique_ptr<TwoStreams>> Make(const CalibrateInput& input,
                                                  const CalibrateOptions& options, uint64_t passes,
                                                  OnProgress progress);

  const DeviceModel& model() const { return model_; }
  const ModelSpec& spec() const { return model_.spec(); }
  const Calibration& text() const { return text_; }
  const std::vector<WindowBatch>& batches() const { return windows_.batches; }
  // Whether rows of consecutive tokens are held out.
  auto HeldOutFrom(uint64_t first) const {
    return [this, first](size_t row) -> bool { return held_out_[first + row]; };
  }

  // Lets the encoded stream start with the embeddings that are among `encoded`, if there are any.
  Status StartFrom(const EncodedTensors& encoded);
  // Begins a layer, in which nothing is encoded yet; the one after the last is the output.
  Status Open(uint32_t layer);
  bool has_experts() const { return !source_->table().empty(); }
  // The trunk's tensors of a layer that get other types.
  std::vector<const HostTensor*> TrunkTensorsOf(uint32_t layer) const;
  const quant::Format* TypeOf(const HostTensor& tensor) const;
  // Has an encoded tensor of the trunk.
  Status Put(const HostTensor& tensor, std::span<const std::byte> bytes);
  // Has those of the layer that are among `encoded`.
  Status PutTrunk(uint32_t layer, const EncodedTensors& encoded);

  // The steps of a layer: all of one without experts; or up to the experts, them, and what follows
  // their sums.
  Status RunDense();
  Status RunToExperts();
  Status AddExperts();
  // What these need to encode experts, or to run them.
  ExpertLayer Experts(uint32_t layer);
  // Runs a batch of a stream through a step, up to the experts or behind them, and throws away the
  // result.
  Status TryToExperts(const WindowBatch& batch, Of stream) {
    return ToExperts(batch, stream, false);
  }
  Status TryAddExperts(const WindowBatch& batch, Of stream) { return Add(batch, stream, false); }
  // The inputs of the output's matrix, after the last layer.
  Status InputsOfOutput(const WindowBatch& batch, Of stream, std::vector<float>& inputs);

  // Counts tokens that ran.
  void Advance(uint64_t tokens);

 private:
  TwoStreams(const CalibrateInput& input, const CalibrateOptions& options, uint64_t passes,
             OnProgress progress);
  Status Start();
  Status Embed();
  Status ToExperts(const WindowBatch& batch, Of stream, bool keep);
  Status Add(const WindowBatch& batch, Of stream, bool keep);
  RowStore& Rows(Of stream) { return stream == Of::kEncoded ? *encoded_ : *full_; }
  ProductWatch& watch() const { return input_.watch; }

  KeptPages pages_{KeptPages::kAll};
  const CalibrateInput& input_;
  const CalibrateOptions& options_;
  uint64_t passes_;
  OnProgress progress_;
  const DeviceModel& model_;
  bool apart_;
  Calibration text_;
  std::vector<bool> held_out_;  // by token
  WindowBatches windows_;
  std::optional<SourceLayers> source_;
  std::vector<LayerPass> pass_;             // of the current layer
  std::optional<RowStore> encoded_, full_;  // the streams, [T, width]
  ExpertStream encoded_experts_, full_experts_;
  std::vector<float> stream_, inputs_, shared_, router_;
  uint64_t done_ = 0;
};

}  // namespace moepack::runtime
