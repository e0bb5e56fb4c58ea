// The layers with Mamba-2 or a short convolution: their projections run on the executor, and the
// host processes one token after another (recurrence.h, short_convolution.h), as for a delta net.
#include "runtime-shim/model/short_convolution.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Status Forward::RunMamba() {
  const MambaShape& shape = spec_.mamba;
  const Rows projected = Dense(scratch_.recurrent_in, shape.projected());
  executor_.MatMul(weights_->mamba.in, Now(scratch_.normed), projected);
  SHARD_CHECK(Mark("projections of Mamba", projected));
  std::vector<float> inputs(projected.values());
  SHARD_CHECK(executor_.Read(projected, inputs));
  const size_t inner = shape.inner(), width = shape.projected();
  recurrent_out_.resize(count_ * inner);
  for (const Segment& segment : segments_) {
    RecurrentState& state = (*segment.caches)[layer_].state;
    const size_t end = segment.first_row + segment.count();
    for (size_t row = segment.first_row; row < end; ++row) {
      StepMamba(shape, weights_->mamba.constants, std::span(inputs).subspan(row * width, width),
                state, std::span(recurrent_out_).subspan(row * inner, inner));
    }
  }
  const Rows out = Dense(scratch_.recurrent_out, shape.inner());
  executor_.Write(recurrent_out_, out);
  SHARD_CHECK(Mark("Mamba", out));
  executor_.MatMul(weights_->mamba.out, out, Now(scratch_.branch));
  return Mark("attention output", Now(scratch_.branch));
}

Status Forward::RunConvolution() {
  const ConvolutionShape& shape = spec_.convolution;
  const ConvolutionWeights& weights = weights_->convolution;
  const Rows projected = Dense(scratch_.recurrent_in, shape.projected());
  executor_.MatMul(weights.in, Now(scratch_.normed), projected);
  SHARD_CHECK(Mark("projections of the convolution", projected));
  std::vector<float> inputs(projected.values());
  SHARD_CHECK(executor_.Read(projected, inputs));
  const size_t width = shape.width;
  recurrent_out_.resize(count_ * width);
  for (const Segment& segment : segments_) {
    RecurrentState& state = (*segment.caches)[layer_].state;
    const size_t end = segment.first_row + segment.count();
    for (size_t row = segment.first_row; row < end; ++row) {
      StepConvolution(shape, weights.kernel,
                      std::span(inputs).subspan(row * shape.projected(), shape.projected()), state,
                      std::span(recurrent_out_).subspan(row * width, width));
    }
  }
  const Rows out = Dense(scratch_.recurrent_out, shape.width);
  executor_.Write(recurrent_out_, out);
  SHARD_CHECK(Mark("convolution", out));
  executor_.MatMul(weights.out, out, Now(scratch_.branch));
  return Mark("attention output", Now(scratch_.branch));
}

Status Forward::RunRecurrence() {
  if (spec_.convolution.kernel > 0) return RunConvolution();
  if (spec_.kda.heads > 0) return RunKda();
  return spec_.mamba.heads > 0 ? RunMamba() : RunDelta();
}

}  // namespace moepack::runtime
