#include "runtime-shim/refit/device_refill.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/text/text.h"
#include "runtime-shim/refit/refill.h"

namespace moepack::runtime {

std::vector<size_t> KeepLargest(std::span<const double> costs, std::span<const size_t> kept,
                                size_t count) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  order.resize(count);
  // In the order of the neurons, so that an expert whose own neurons all stay keeps its rows.
  std::sort(order.begin(), order.end());
  for (size_t& place : order) place = kept[place];
  return order;
}

size_t LeftAfterRound(size_t own, size_t joined, uint32_t round) {
  return own + joined * (kRoundsOfRemoval - 1 - round) / kRoundsOfRemoval;
}

Result<std::unique_ptr<DeviceRefill>> DeviceRefill::Make(Products& products, NodeLayer& node,
                                                         uint64_t joining) {
  const uint64_t hidden = node.experts.hidden, size = node.experts.width + joining;
  const uint64_t floats = node.tokens() * (4 * hidden + 4 * size) + 4 * size * hidden;
  const uint64_t doubles = 3 * size * size + 2 * size * hidden;
  SHARD_TRY(std::unique_ptr<DeviceNode> device,
            DeviceNode::Make(products, node, floats * sizeof(float) + doubles * sizeof(double)));
  if (device == nullptr) return std::unique_ptr<DeviceRefill>();
  return std::unique_ptr<DeviceRefill>(new DeviceRefill(std::move(device)));
}

Result<DeviceExpert> DeviceRefill::Load(const RefittedExperts& others) {
  DeviceExpert loaded;
  others_.clear();
  const auto load = [&](const std::vector<float>& values, Rows& rows, size_t columns) -> Status {
    if (values.empty()) return Ok();
    SHARD_TRY(BufferPtr buffer, executor().Load(std::as_bytes(std::span(values))));
    rows = {buffer.get(), 0, static_cast<uint32_t>(values.size() / columns),
            static_cast<uint32_t>(columns), static_cast<uint32_t>(columns)};
    others_.push_back(std::move(buffer));
    return Ok();
  };
  SHARD_CHECK(load(others.gate, loaded.gate, others.hidden));
  SHARD_CHECK(load(others.up, loaded.up, others.hidden));
  SHARD_CHECK(load(others.gate_bias, loaded.gate_bias, others.width));
  SHARD_CHECK(load(others.up_bias, loaded.up_bias, others.width));
  return loaded;
}

Status DeviceRefill::Join(size_t place, const RefittedExperts& others) {
  const ExpertTokens& tokens = all_[place];
  const DeviceExpert own = device_->expert(place);
  const auto width = static_cast<uint32_t>(device_->node().experts.width);
  const auto joining = static_cast<uint32_t>(others.width);
  SHARD_TRY(joined_, joined_table_.Take(executor(), tokens.tokens.size(), width + joining));
  SHARD_CHECK(device_->Activations(own, tokens, joined_.Columns(0, width)));
  if (joining > 0) {
    SHARD_TRY(const DeviceExpert loaded, Load(others));
    SHARD_CHECK(device_->Activations(loaded, tokens, joined_.Columns(width, joining)));
  }
  SHARD_TRY(part_, part_table_.Take(executor(), joined_.count, device_->inputs().width));
  algebra().Multiply(Straight(joined_.Columns(0, width)), Turned(own.down), part_);
  return Ok();
}

Status DeviceRefill::MakeNormal(size_t place) {
  const FittedTokens fitted = FittedOf(device_->node(), all_[place]);
  const size_t count = fitted.tokens.size(), size = joined_.width, hidden = part_.width;
  SHARD_TRY(const Rows scaled, scaled_.Take(executor(), count, size));
  SHARD_TRY(const Rows rows, rows_.Take(executor(), count, hidden));
  SHARD_TRY(const Rows part, fitted_part_.Take(executor(), count, hidden));
  executor().Gather(joined_, fitted.positions, fitted.roots, scaled);
  executor().Gather(part_, fitted.positions, fitted.roots, part);
  SHARD_CHECK(device_->Residuals(fitted.tokens, fitted.roots, rows));
  executor().Add(rows, part, 1);
  SHARD_TRY(matrix_, matrix_table_.TakeDoubles(executor(), size, size));
  SHARD_TRY(sides_, sides_table_.TakeDoubles(executor(), hidden, size));
  algebra().Clear(matrix_);
  algebra().Clear(sides_);
  algebra().AddProduct(scaled, scaled, kTokensOfSum, matrix_);
  algebra().AddProduct(rows, scaled, kTokensOfSum, sides_);
  return Ok();
}

Result<bool> DeviceRefill::SolveFor(std::span<const size_t> kept) {
  const std::vector<uint32_t> columns(kept.begin(), kept.end());
  SHARD_TRY(factor_, factor_table_.TakeDoubles(executor(), kept.size(), kept.size()));
  SHARD_TRY(solution_, solution_table_.TakeDoubles(executor(), sides_.count, kept.size()));
  algebra().TakeColumns(matrix_, columns, true, factor_);
  algebra().TakeColumns(sides_, columns, false, solution_);
  SHARD_TRY(const bool definite, algebra().Factorize(factor_));
  if (definite) algebra().Solve(factor_, solution_);
  return definite;
}

Result<std::vector<double>> DeviceRefill::CostsOf() {
  const size_t count = factor_.count;
  SHARD_TRY(const Doubles inverse, inverse_.TakeDoubles(executor(), 1, count));
  SHARD_TRY(const Doubles squares, squares_.TakeDoubles(executor(), 1, count));
  algebra().InvertDiagonal(factor_, inverse);
  algebra().SumSquares(solution_, squares);
  std::vector<double> costs(count), divisors(count);
  SHARD_CHECK(algebra().Read(squares, costs));
  SHARD_CHECK(algebra().Read(inverse, divisors));
  for (size_t i = 0; i < count; ++i) costs[i] /= divisors[i];
  return costs;
}

Result<std::vector<size_t>> DeviceRefill::Choose(size_t place, const RefittedExperts& others,
                                                 double lambda) {
  SHARD_CHECK(Join(place, others));
  SHARD_CHECK(MakeNormal(place));
  SHARD_TRY(const double mean, MeanDiagonalOf(algebra(), matrix_));
  if (mean == 0) return std::vector<size_t>();
  algebra().AddToDiagonal(matrix_, lambda * mean);
  std::vector<size_t> kept(joined_.width);
  std::iota(kept.begin(), kept.end(), size_t{0});
  for (uint32_t round = 0;; ++round) {
    SHARD_TRY(const bool definite, SolveFor(kept));
    if (!definite) return ExpertNotDefinite(device_->node(), place);
    if (round == kRoundsOfRemoval) return kept;
    SHARD_TRY(const std::vector<double> costs, CostsOf());
    kept = KeepLargest(costs, kept,
                       LeftAfterRound(device_->node().experts.width, others.width, round));
  }
}

Result<std::vector<float>> DeviceRefill::Put(size_t place) {
  const size_t places[] = {place};
  const DeviceExpert own = device_->expert(place);
  device_->WriteNeurons(place);
  SHARD_TRY(const Rows moved, moved_.Take(executor(), own.down.count, own.down.width));
  executor().Scale(own.down, 0);
  algebra().Change(solution_, own.down, moved);
  SHARD_CHECK(device_->ReadDown(places));
  SHARD_TRY(const Rows activations, own_.Take(executor(), joined_.count, own.down.width));
  SHARD_CHECK(device_->Activations(own, all_[place], activations));
  SHARD_TRY(const Rows change, rows_.Take(executor(), joined_.count, part_.width));
  algebra().Multiply(Straight(activations), Turned(own.down), change);
  executor().Add(change, part_, -1);
  // The experts after this one see the residual that is left to them.
  executor().ScatterAdd(device_->outputs(), all_[place].tokens, std::vector<float>(change.count, 1),
                        change);
  std::vector<float> values(change.values());
  SHARD_CHECK(executor().Read(change, values));
  return values;
}

}  // namespace moepack::runtime
