#include "runtime-shim/refit/device_scores.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/parallel.h"

namespace moepack::runtime {

Result<std::vector<NeuronSize>> ReadSizes(DenseAlgebra& algebra, const Doubles& squares) {
  std::vector<double> values(size_t{2} * squares.width);
  SHARD_CHECK(algebra.Read(squares, values));
  std::vector<NeuronSize> sizes(squares.width);
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = {static_cast<float>(std::sqrt(values[i])),
                static_cast<float>(std::sqrt(values[sizes.size() + i]))};
  return sizes;
}

Result<std::unique_ptr<DeviceScores>> DeviceScores::Make(Products& products,
                                                         std::span<const MlpWeights* const> experts,
                                                         const Sample& sample, uint64_t more) {
  const auto& [form, inputs, gates] = sample;
  if (products.algebra() == nullptr || gates.empty()) return std::unique_ptr<DeviceScores>();
  std::unique_ptr<DeviceScores> scores(new DeviceScores(products));
  uint32_t neurons = 0;
  for (const MlpWeights* const expert : experts) {
    const uint32_t own = expert != nullptr ? expert->inner() : 0;
    scores->columns_.push_back({neurons, own});
    neurons += own;
  }
  const uint64_t needed = (uint64_t{neurons} * gates.size() + inputs.size()) * sizeof(float);
  if (!products.HasRoomFor(needed + more)) return std::unique_ptr<DeviceScores>();
  Executor& executor = products.executor();
  DeviceTable table;
  SHARD_TRY(const Rows in, table.Take(executor, gates.size(), inputs.size() / gates.size()));
  executor.Write(inputs, in);
  if (form.weigh_inputs) executor.ScaleRows(in, gates);
  SHARD_TRY(scores->activations_, scores->activations_table_.Take(executor, gates.size(), neurons));
  SHARD_CHECK(scores->Run(experts, form, in));
  SHARD_CHECK(executor.Finish());
  return scores;
}

Status DeviceScores::Run(std::span<const MlpWeights* const> experts, const ExpertForm& form,
                         const Rows& in) {
  for (size_t id = 0; id < experts.size(); ++id) {
    SHARD_CHECK(CheckInterrupt());
    const Columns& own = columns_[id];
    if (own.count == 0) continue;
    SHARD_CHECK(
        products_.Activate(*experts[id], form, in, activations_.Columns(own.first, own.count)));
  }
  return Ok();
}

Status DeviceScores::MeasureColumns(const Columns& own, const Missing& missing, const Rows& values,
                                    const Doubles& squares) {
  SHARD_TRY(const Rows phi, phi_.Take(executor(), missing.rows.size(), own.count));
  SHARD_TRY(const Rows explained, explained_.Take(executor(), missing.width, own.count));
  executor().Gather(activations_.Columns(own.first, own.count), missing.rows, missing.factors, phi);
  DenseAlgebra& algebra = *products_.algebra();
  algebra.Multiply(Turned(values), Straight(phi), explained);
  algebra.SumSquares(explained, squares.Block(0, own.first, 1, own.count));
  algebra.SumSquares(phi, squares.Block(1, own.first, 1, own.count));
  return Ok();
}

Result<std::vector<std::vector<NeuronSize>>> DeviceScores::Measure(const Missing& missing) {
  std::vector<std::vector<NeuronSize>> sizes(columns_.size());
  for (size_t id = 0; id < sizes.size(); ++id) sizes[id].resize(columns_[id].count);
  if (missing.rows.empty()) return sizes;
  SHARD_TRY(const Rows values, values_.Take(executor(), missing.rows.size(), missing.width));
  SHARD_TRY(const Doubles squares, squares_.TakeDoubles(executor(), 2, activations_.width));
  executor().Write(missing.values, values);
  for (const Columns& own : columns_) {
    if (own.count > 0) SHARD_CHECK(MeasureColumns(own, missing, values, squares));
  }
  SHARD_TRY(const std::vector<NeuronSize> found, ReadSizes(*products_.algebra(), squares));
  for (size_t id = 0; id < sizes.size(); ++id)
    std::copy_n(found.begin() + columns_[id].first, columns_[id].count, sizes[id].begin());
  return sizes;
}

}  // namespace moepack::runtime
