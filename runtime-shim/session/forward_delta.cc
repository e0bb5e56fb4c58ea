// The layers with a gated delta net. Its projections run on the executor; their results are read
// back, and the host processes one token after another (recurrence.h), so that a batch gives the
// bits of single tokens.
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

namespace {

// beta or alpha of a token, by value head, if both are in one row: for each key head those of its
// value heads, beta before alpha.
std::vector<float> Unpacked(const DeltaShape& shape, std::span<const float> row, bool alpha) {
  const uint32_t each = shape.value_heads / shape.key_heads;
  std::vector<float> values(shape.value_heads);
  for (uint32_t head = 0; head < shape.value_heads; ++head)
    values[head] = row[(head / each * 2 + (alpha ? 1 : 0)) * each + head % each];
  return values;
}

}  // namespace

Status Forward::ProjectDelta() {
  const DeltaWeights& weights = weights_->delta;
  const DeltaShape& shape = spec_.delta;
  const Rows normed = Now(scratch_.normed);
  const auto project = [&](const Matrix& matrix, const Rows& rows,
                           std::vector<float>& out) -> Status {
    const Rows result = Dense(rows, matrix.rows);
    executor_.MatMul(matrix, normed, result);
    out.resize(result.values());
    return executor_.Read(result, out);
  };
  // Each result is read back at once, so the next one may use the same rows.
  SHARD_CHECK(project(weights.mixed, scratch_.recurrent_in, delta_mixed_));
  SHARD_CHECK(project(weights.gate, scratch_.recurrent_out, delta_gate_));
  SHARD_CHECK(project(weights.strengths, scratch_.recurrent_out, delta_strengths_));
  if (weights.rates) return project(weights.rates, scratch_.recurrent_out, delta_rates_);
  std::vector<float> beta;
  delta_rates_.clear();
  const size_t width = 2 * size_t{shape.value_heads};
  for (uint32_t row = 0; row < count_; ++row) {
    const auto both = std::span(delta_strengths_).subspan(row * width, width);
    const std::vector<float> own = Unpacked(shape, both, false),
                             rates = Unpacked(shape, both, true);
    beta.insert(beta.end(), own.begin(), own.end());
    delta_rates_.insert(delta_rates_.end(), rates.begin(), rates.end());
  }
  delta_strengths_ = std::move(beta);
  return Ok();
}

void Forward::StepDeltas(const Segment& segment) {
  const DeltaShape& shape = spec_.delta;
  const size_t channels = shape.channels(), values = shape.values(), heads = shape.value_heads;
  RecurrentState& state = (*segment.caches)[layer_].state;
  const size_t end = segment.first_row + segment.count();
  for (size_t row = segment.first_row; row < end; ++row) {
    const DeltaToken token = {std::span(delta_mixed_).subspan(row * channels, channels),
                              std::span(delta_gate_).subspan(row * values, values),
                              std::span(delta_strengths_).subspan(row * heads, heads),
                              std::span(delta_rates_).subspan(row * heads, heads)};
    StepDelta(shape, weights_->delta.constants, token, state,
              std::span(recurrent_out_).subspan(row * values, values));
  }
}

Status Forward::RunDelta() {
  const uint32_t values = spec_.delta.values();
  SHARD_CHECK(ProjectDelta());
  SHARD_CHECK(Mark("projections of linear attention", Now(scratch_.recurrent_in)));
  recurrent_out_.resize(size_t{count_} * values);
  for (const Segment& segment : segments_) StepDeltas(segment);
  const Rows out = Dense(scratch_.recurrent_out, values);
  executor_.Write(recurrent_out_, out);
  SHARD_CHECK(Mark("linear attention", out));
  executor_.MatMul(weights_->delta.output, out, Now(scratch_.branch));
  return Mark("attention output", Now(scratch_.branch));
}

}  // namespace moepack::runtime
