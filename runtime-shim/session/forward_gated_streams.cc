// Gated hyper-connections: the row that runs through the layers is several streams, and there are
// no norms of layers. What a block reads is the mean of the normed streams times gates, which are
// computed from all of them; each stream gets a share of the block's output. Sources:
// "Hyper-Connections" (arXiv 2409.19606); llama.cpp's src/models/qwen4exp.cpp (build_hc_mix,
// build_hc_combine) for the order of operations.
//
//   x_s = norm(stream_s);  gates = sigmoid(up silu(down x / count));  read = mean of x_s * gates_s
//   stream_s += 2 sigmoid(inject_s x / count) * output
//
// Everything runs on the executor.
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

void Forward::NormStreams(const Rows& streams, const std::vector<Matrix>& norms,
                          const Rows& normed) {
  for (uint32_t stream = 0; stream < spec_.streams.count; ++stream) {
    const uint32_t first = stream * spec_.width;
    executor_.RmsNorm(streams.Columns(first, spec_.width), {norms[stream], {}, spec_.norm_eps},
                      normed.Columns(first, spec_.width));
  }
}

Status Forward::ReadGated(const GatedStreamWeights& weights, const Rows& streams, const Rows& out) {
  const float share = 1 / static_cast<float>(spec_.streams.count);
  const auto rows_of = [&](const Rows& rows) { return rows.Slice(0, streams.count); };
  const Rows normed = rows_of(scratch_.next_streams), gates = rows_of(scratch_.stream_parts);
  NormStreams(streams, weights.norms, normed);
  SHARD_CHECK(Mark("norm of the streams", normed));
  const Rows low = rows_of(scratch_.low_values), activated = rows_of(scratch_.low_gates);
  executor_.MatMul(weights.down, normed, low);
  executor_.Scale(low, share);
  executor_.Copy(low, activated);
  executor_.Activate(Activation::kSigmoid, activated, low);  // the sigmoid of x times x is its silu
  executor_.MatMul(weights.up, activated, gates);
  executor_.Activate(Activation::kSigmoid, gates, normed);
  executor_.Copy(gates.Columns(0, spec_.width), out);
  for (uint32_t stream = 1; stream < spec_.streams.count; ++stream)
    executor_.Add(out, gates.Columns(stream * spec_.width, spec_.width), 1);
  executor_.Scale(out, share);
  if (!weights.inject) return Ok();
  const Rows injections = rows_of(scratch_.stream_mixes).Columns(0, spec_.streams.count);
  executor_.MatMul(weights.inject, normed, injections);
  executor_.Scale(injections, share);
  return Mark("shares of the streams", injections);
}

void Forward::WriteGated() {
  constexpr float kMost = 2;  // so that an injection of zero adds the whole output
  const Rows part = Now(scratch_.stream_parts).Columns(0, spec_.width);
  for (uint32_t stream = 0; stream < spec_.streams.count; ++stream) {
    executor_.Copy(Now(scratch_.branch), part);
    executor_.ScaleBySigmoid(part, Now(scratch_.stream_mixes).Columns(stream, 1));
    executor_.Add(Now(scratch_.hidden).Columns(stream * spec_.width, spec_.width), part, kMost);
  }
}

}  // namespace moepack::runtime
