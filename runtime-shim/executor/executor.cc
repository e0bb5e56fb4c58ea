#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

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
  uint32_t measured = 0;
  Copy(batch.zeros, batch.sum);
  for (const ExpertRows& expert : batch.experts) {
    const auto count = static_cast<uint32_t>(expert.rows.size());
    const Rows in = batch.in.Slice(0, count), out = batch.out.Slice(0, count);
    const std::vector<float> ones(batch.weigh_inputs ? count : 0, 1.0f), none;
    Gather(batch.x, expert.rows, batch.weigh_inputs ? expert.gates : none, in);
    RunMlp(*expert.weights, batch.activation, in, {batch.gate, batch.up, out});
    ScatterAdd(batch.sum, expert.rows, batch.weigh_inputs ? ones : expert.gates, out);
    if (sizes == nullptr) continue;
    MeasureRows(out, batch.sizes.Slice(measured, count));
    measured += count;
  }
  if (sizes == nullptr) return Ok();
  // Reading waits for the device, so all sizes are read at once.
  std::vector<float> values(size_t{measured} * 2);
  SHARD_CHECK(Read(batch.sizes.Slice(0, measured), values));
  for (size_t i = 0; i < values.size(); i += 2) {
    sizes->norms.push_back(values[i]);
    sizes->peaks.push_back(values[i + 1]);
  }
  return Ok();
}

}  // namespace moepack::runtime
