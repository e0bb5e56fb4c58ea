#include "runtime-shim/executor/executor.h"

#include <algorithm>
#include <cmath>

namespace moepack::runtime {
namespace {

void AddSizes(std::span<const float> values, OutputSizes& sizes) {
  float peak = 0;
  double squares = 0;
  for (const float value : values) {
    peak = std::max(peak, std::abs(value));
    squares += double{value} * value;
  }
  sizes.peaks.push_back(peak);
  sizes.norms.push_back(static_cast<float>(std::sqrt(squares)));
}

}  // namespace

void Executor::Project(const Linear& linear, const Rows& x, const Rows& y) {
  MatMul(linear.weight, x, y);
  if (linear.bias) AddBias(y, linear.bias);
}

void Executor::RunMlp(const MlpWeights& mlp, Activation activation, const Rows& x,
                      const MlpRows& rows) {
  const uint32_t inner = mlp.inner();
  const Rows gate = rows.gate.Slice(0, x.count).Columns(0, inner);
  const Rows up = rows.up.Slice(0, x.count).Columns(0, inner);
  Project(mlp.first(), x, gate);
  if (mlp.gate.weight) Project(mlp.up, x, up);
  Activate(activation, gate, up);
  Project(mlp.down, gate, rows.out);
}

Status Executor::MixExperts(const ExpertBatch& batch, OutputSizes* sizes) {
  std::vector<float> values;
  Copy(batch.zeros, batch.sum);
  for (const ExpertRows& expert : batch.experts) {
    const auto count = static_cast<uint32_t>(expert.rows.size());
    const Rows in = batch.in.Slice(0, count), out = batch.out.Slice(0, count);
    const std::vector<float> ones(batch.weigh_inputs ? count : 0, 1.0f), none;
    Gather(batch.x, expert.rows, batch.weigh_inputs ? expert.gates : none, in);
    RunMlp(*expert.weights, batch.activation, in, {batch.gate, batch.up, out});
    ScatterAdd(batch.sum, expert.rows, batch.weigh_inputs ? ones : expert.gates, out);
    if (sizes == nullptr) continue;
    values.resize(out.values());
    SHARD_CHECK(Read(out, values));
    for (uint32_t row = 0; row < count; ++row)
      AddSizes(std::span(values).subspan(size_t{row} * out.width, out.width), *sizes);
  }
  return Ok();
}

}  // namespace moepack::runtime
