// Hyper-connections: the row that runs through the layers is several streams (hyper_connections.h).
// Each block reads a weighted sum of them. Its output goes to all of them, and each also passes
// something on to the others. The weights are the host's; streams are summed on the executor.
#include "runtime-shim/executor/residual_mix.h"
#include "runtime-shim/model/hyper_connections.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Result<std::vector<float>> Forward::ProjectStreams(const StreamWeights& weights,
                                                   const Rows& streams) {
  const Rows normed = scratch_.stream_parts.Slice(0, streams.count);
  executor_.RmsNorm(streams, {{}, {}, spec_.norm_eps}, normed);
  const uint32_t width = weights.projection.rows;
  const Rows projected = {scratch_.stream_mixes.buffer, scratch_.stream_mixes.offset, streams.count,
                          width, width};
  executor_.MatMul(weights.projection, normed, projected);
  SHARD_CHECK(Mark("weights of the streams", projected));
  std::vector<float> values(projected.values());
  SHARD_CHECK(executor_.Read(projected, values));
  return values;
}

void Forward::SumStreams(const Rows& streams, std::span<const float> weights, const Rows& sum) {
  std::vector<Rows> parts;
  for (uint32_t stream = 0; stream < spec_.streams.count; ++stream)
    parts.push_back(streams.Columns(stream * spec_.width, spec_.width));
  SumWeighed(executor_, parts, weights, sum);
}

Status Forward::ReadStreams(const StreamWeights& weights) {
  const Rows streams = Now(scratch_.hidden);
  SHARD_TRY(const std::vector<float> projected, ProjectStreams(weights, streams));
  const size_t width = spec_.streams.projected();
  std::vector<float> reads;
  stream_writes_.clear();
  stream_keeps_.clear();
  for (size_t row = 0; row < count_; ++row) {
    const StreamMix mix = MixStreams(spec_.streams, weights.constants,
                                     std::span(projected).subspan(row * width, width));
    reads.insert(reads.end(), mix.read.begin(), mix.read.end());
    stream_writes_.insert(stream_writes_.end(), mix.write.begin(), mix.write.end());
    stream_keeps_.insert(stream_keeps_.end(), mix.keep.begin(), mix.keep.end());
  }
  SumStreams(streams, reads, Now(scratch_.normed));
  return Mark("sum of the streams", Now(scratch_.normed));
}

// Row by row, `count` rows of one stream each: next[to] = write[to] * output + the sum over `from`
// of keep[from][to] * stream[from].
void Forward::WriteStreams() {
  const uint32_t count = spec_.streams.count;
  const Rows hidden = Now(scratch_.hidden), next = Now(scratch_.next_streams);
  const Rows from = HeadsOf(hidden, count), to = HeadsOf(next, count);
  const Rows part = HeadsOf(Now(scratch_.stream_parts), count);
  std::vector<uint32_t> rows(to.count);
  std::vector<float> factors(to.count);
  for (uint32_t row = 0; row < to.count; ++row) rows[row] = row / count;
  executor_.Gather(Now(scratch_.branch), rows, stream_writes_, to);
  for (uint32_t stream = 0; stream < count; ++stream) {
    for (uint32_t row = 0; row < to.count; ++row) {
      const uint32_t token = row / count;
      rows[row] = token * count + stream;
      factors[row] = stream_keeps_[size_t{rows[row]} * count + row % count];
    }
    executor_.Gather(from, rows, factors, part);
    executor_.Add(to, part, 1);
  }
  executor_.Copy(next, hidden);
}

Status Forward::GatherOutputs(std::span<const uint32_t> rows, const Rows& out) {
  const Rows hidden = Now(scratch_.hidden);
  if (const uint32_t kept = spec_.KeptBefore(spec_.layers); kept > 0) {
    // `out` may be the first rows of the scratch that all are mixed in.
    const Rows mixed = Now(scratch_.normed), all = Now(scratch_.branch);
    SHARD_CHECK(MixKept(model_.trunk().streams.score, kept, mixed));
    executor_.Copy(mixed, all);
    executor_.Gather(all, rows, {}, out);
    return Ok();
  }
  if (spec_.streams.count == 0) {
    executor_.Gather(hidden, rows, {}, out);
    return Ok();
  }
  const StreamWeights& weights = model_.trunk().streams;
  const bool gated = spec_.streams.gated();
  const Rows streams = (gated ? scratch_.stream_parts : scratch_.next_streams).Slice(0, out.count);
  executor_.Gather(hidden, rows, {}, streams);
  if (gated) return ReadGated(weights.gates, streams, out);
  SHARD_TRY(const std::vector<float> projected, ProjectStreams(weights, streams));
  const size_t width = spec_.streams.count;
  std::vector<float> reads;
  for (size_t row = 0; row < out.count; ++row) {
    const std::vector<float> own = runtime::ReadStreams(
        spec_.streams, weights.constants, std::span(projected).subspan(row * width, width));
    reads.insert(reads.end(), own.begin(), own.end());
  }
  SumStreams(streams, reads, out);
  return Mark("sum of the streams", out);
}

}  // namespace moepack::runtime
