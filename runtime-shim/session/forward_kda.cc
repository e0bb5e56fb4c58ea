// The layers with Kimi delta attention. As with a delta net, projections run on the executor, and
// the host processes one token after another (kda.h).
#include "runtime-shim/model/kda.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Status Forward::ReadProjection(const Matrix& matrix, const Rows& in, std::vector<float>& out) {
  // The result is read back at once, so the next one may use the same rows.
  const Rows result = Dense(scratch_.recurrent_in, matrix.rows);
  executor_.MatMul(matrix, in, result);
  out.resize(result.values());
  return executor_.Read(result, out);
}

Status Forward::RunKda() {
  const KdaWeights& weights = weights_->kda;
  const KdaShape& shape = spec_.kda;
  const size_t values = shape.values();
  const Rows normed = Now(scratch_.normed);
  SHARD_CHECK(ReadProjection(weights.query, normed, kda_.queries));
  SHARD_CHECK(ReadProjection(weights.key, normed, kda_.keys));
  SHARD_CHECK(ReadProjection(weights.value, normed, kda_.values));
  Rows low = normed;
  if (weights.decay_down) {
    low = Dense(scratch_.recurrent_out, weights.decay_down.rows);
    executor_.MatMul(weights.decay_down, normed, low);
  }
  SHARD_CHECK(ReadProjection(weights.decay, low, kda_.decay));
  SHARD_CHECK(ReadProjection(weights.gate, normed, kda_.gate));
  SHARD_CHECK(ReadProjection(weights.strength, normed, kda_.strength));
  recurrent_out_.resize(count_ * values);
  const auto row_of = [](const std::vector<float>& all, size_t row, size_t width) {
    return std::span(all).subspan(row * width, width);
  };
  for (const Segment& segment : segments_) {
    RecurrentState& state = (*segment.caches)[layer_].state;
    const size_t end = segment.first_row + segment.count();
    for (size_t row = segment.first_row; row < end; ++row) {
      const KdaToken token = {
          row_of(kda_.queries, row, values), row_of(kda_.keys, row, values),
          row_of(kda_.values, row, values),  row_of(kda_.decay, row, values),
          row_of(kda_.gate, row, values),    row_of(kda_.strength, row, shape.heads)};
      StepKda(shape, weights.constants, token, state,
              std::span(recurrent_out_).subspan(row * values, values));
    }
  }
  const Rows out = Dense(scratch_.recurrent_out, shape.values());
  executor_.Write(recurrent_out_, out);
  SHARD_CHECK(Mark("linear attention", out));
  executor_.Project(weights_->attention.output, out, Now(scratch_.branch));
  return Mark("attention output", Now(scratch_.branch));
}

}  // namespace moepack::runtime
