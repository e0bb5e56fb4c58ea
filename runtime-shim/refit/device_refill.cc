#include "runtime-shim/refit/device_refill.h"

#include <algorithm>
#include <numeric>

namespace moepack::runtime {
namespace {

// A row of values as as many rows of one value.
Rows AsColumn(const Rows& row) { return {row.buffer, row.offset, row.width, 1, 1}; }

}  // namespace

const DeviceRefill::NeuronPart DeviceRefill::kNeuronParts[2] = {
    {&MlpWeights::gate, &Neurons::gate, &Neurons::gate_bias, &DeviceExpert::gate,
     &DeviceExpert::gate_bias},
    {&MlpWeights::up, &Neurons::up, &Neurons::up_bias, &DeviceExpert::up, &DeviceExpert::up_bias},
};

uint64_t DeviceRefill::BytesOf(const NodeLayer& node, uint64_t pool) {
  const uint64_t hidden = node.experts.hidden, size = node.experts.width + pool;
  uint64_t tokens = 0;  // of the largest expert
  for (const ExpertTokens& expert : TokensOfExperts(node, false))
    tokens = std::max<uint64_t>(tokens, expert.tokens.size());
  const uint64_t scored = std::min(tokens, 2 * kScoredTokens), candidates = kCandidates * pool;
  const uint64_t floats = tokens * (5 * hidden + 4 * size) + scored * 2 * candidates +
                          (2 * size + 2 * pool + 3 * candidates) * hidden;
  const uint64_t doubles = 3 * size * size + 2 * size * hidden;
  return DeviceNode::BytesOf(node) + floats * sizeof(float) + doubles * sizeof(double);
}

Result<std::unique_ptr<DeviceRefill>> DeviceRefill::Make(Products& products,
                                                         const NeuronSource& source, uint64_t pool,
                                                         NodeLayer& node) {
  if (node.experts.width + pool > DenseAlgebra::kMostEquations)
    return std::unique_ptr<DeviceRefill>();
  SHARD_TRY(std::unique_ptr<DeviceNode> device,
            DeviceNode::Make(products, node, BytesOf(node, pool) - DeviceNode::BytesOf(node)));
  if (device == nullptr) return std::unique_ptr<DeviceRefill>();
  return std::unique_ptr<DeviceRefill>(new DeviceRefill(std::move(device), source, pool));
}

Result<RefilledExpert> DeviceRefill::Run(size_t place, std::span<const Neuron> candidates,
                                         double lambda) {
  SHARD_TRY(const std::vector<uint32_t> rows, LoadCandidates(candidates));
  SHARD_TRY(const std::vector<NeuronSize> measured, MeasureCandidates(place));
  std::vector<NeuronSize> sizes;
  for (const uint32_t row : rows) sizes.push_back(measured[row]);
  std::vector<uint32_t> best;
  for (const size_t at : LargestScores(ScoresOf(sizes), pool_)) best.push_back(rows[at]);
  SHARD_CHECK(TakeOthers(best));
  RefilledExpert refilled;
  SHARD_TRY(const std::vector<size_t> kept, Choose(place, lambda));
  if (kept.empty()) return refilled;
  SHARD_TRY(refilled.change, Put(place, kept));
  const size_t width = device_->node().experts.width;
  refilled.moved = static_cast<uint64_t>(
      std::count_if(kept.begin(), kept.end(), [&](size_t neuron) { return neuron >= width; }));
  return refilled;
}

Result<std::vector<uint32_t>> DeviceRefill::LoadCandidates(std::span<const Neuron> candidates) {
  std::vector<uint32_t> order(candidates.size()), rows(candidates.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return candidates[a].expert < candidates[b].expert;
  });
  std::vector<Neuron> neurons;
  for (const uint32_t at : order) {
    rows[at] = static_cast<uint32_t>(neurons.size());
    neurons.push_back(candidates[at]);
  }
  candidates_.count = neurons.size();
  candidates_.rows = {};
  for (const NeuronPart& part : kNeuronParts) {
    if (!neurons.empty()) SHARD_CHECK(LoadPart(part, neurons));
  }
  return rows;
}

// `neurons` are in the order of their experts.
Status DeviceRefill::LoadPart(const NeuronPart& part, std::span<const Neuron> neurons) {
  const Linear& any = source_.experts[neurons.front().expert]->*part.linear;
  if (!any.weight) return Ok();
  Rows& rows = candidates_.rows.*part.rows;
  Rows& bias = candidates_.rows.*part.bias;
  SHARD_TRY(rows, (candidates_.*part.weights).Take(executor(), neurons.size(), any.weight.columns));
  if (any.bias) {
    SHARD_TRY(bias, (candidates_.*part.biases).Take(executor(), 1, neurons.size()));
  }
  for (uint32_t first = 0; first < neurons.size();) {
    const uint32_t id = neurons[first].expert;
    std::vector<uint32_t> indexes;
    for (uint32_t i = first; i < neurons.size() && neurons[i].expert == id; ++i)
      indexes.push_back(neurons[i].index);
    const auto count = static_cast<uint32_t>(indexes.size());
    const Linear& linear = source_.experts[id]->*part.linear;
    executor().Embed(linear.weight, indexes, rows.Slice(first, count));
    if (any.bias) {
      const Matrix& own = linear.bias;
      executor().Embed({own.buffer, own.offset, own.format, own.columns, 1}, indexes,
                       AsColumn(bias).Slice(first, count));
    }
    first += count;
  }
  return Ok();
}

Result<std::vector<NeuronSize>> DeviceRefill::MeasureCandidates(size_t place) {
  const size_t count = candidates_.count, hidden = device_->inputs().width;
  if (count == 0) return std::vector<NeuronSize>();
  const ExpertTokens tokens = SomeTokens(fit_[place], kScoredTokens);
  const std::vector<float> roots = FittedOf(device_->node(), tokens).roots;
  const size_t some = roots.size();
  SHARD_TRY(const Rows phi, scaled_.Take(executor(), some, count));
  SHARD_TRY(const Rows residuals, rows_.Take(executor(), some, hidden));
  SHARD_TRY(const Rows explained, part_table_.Take(executor(), hidden, count));
  SHARD_TRY(const Doubles squares, squares_.TakeDoubles(executor(), 2, count));
  SHARD_CHECK(device_->Activations(candidates_.rows, tokens, phi));
  executor().ScaleRows(phi, roots);
  SHARD_CHECK(device_->Residuals(tokens.tokens, roots, residuals));
  algebra().Multiply(Turned(residuals), Straight(phi), explained);
  algebra().SumSquares(explained, squares.Block(0, 0, 1, explained.width));
  algebra().SumSquares(phi, squares.Block(1, 0, 1, phi.width));
  return ReadSizes(algebra(), squares);
}

Status DeviceRefill::TakeOthers(std::span<const uint32_t> rows) {
  others_.count = rows.size();
  others_.rows = {};
  if (rows.empty()) return Ok();
  for (const NeuronPart& part : kNeuronParts) {
    const Rows& from = candidates_.rows.*part.rows;
    const Rows& bias = candidates_.rows.*part.bias;
    if (from.buffer != nullptr) {
      Rows& to = others_.rows.*part.rows;
      SHARD_TRY(to, (others_.*part.weights).Take(executor(), rows.size(), from.width));
      executor().Gather(from, rows, {}, to);
    }
    if (bias.buffer != nullptr) {
      Rows& to = others_.rows.*part.bias;
      SHARD_TRY(to, (others_.*part.biases).Take(executor(), 1, rows.size()));
      executor().Gather(AsColumn(bias), rows, {}, AsColumn(to));
    }
  }
  return Ok();
}

Status DeviceRefill::Join(size_t place) {
  const ExpertTokens& tokens = all_[place];
  const DeviceExpert own = device_->expert(place);
  const auto width = static_cast<uint32_t>(device_->node().experts.width);
  const auto joining = static_cast<uint32_t>(others_.count);
  SHARD_TRY(joined_, joined_table_.Take(executor(), tokens.tokens.size(), width + joining));
  SHARD_CHECK(device_->Activations(own, tokens, joined_.Columns(0, width)));
  if (joining > 0)
    SHARD_CHECK(device_->Activations(others_.rows, tokens, joined_.Columns(width, joining)));
  SHARD_TRY(part_, part_table_.Take(executor(), joined_.count, device_->inputs().width));
  algebra().Multiply(Straight(joined_.Columns(0, width)), Turned(own.down), part_);
  return Ok();
}

Status DeviceRefill::MakeNormal(size_t place) {
  const FittedTokens fitted = FittedOf(device_->node(), all_[place]);
  const size_t count = fitted.tokens.size(), size = joined_.width, hidden = part_.width;
  SHARD_TRY(const Rows scaled, scaled_.Take(executor(), count, size));
  SHARD_TRY(const Rows rows, rows_.Take(executor(), count, hidden));
  SHARD_TRY(const Rows part, own_.Take(executor(), count, hidden));
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

Result<std::vector<double>> DeviceRefill::CostsOfKept() {
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

Result<std::vector<size_t>> DeviceRefill::Choose(size_t place, double lambda) {
  SHARD_CHECK(Join(place));
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
    SHARD_TRY(const std::vector<double> costs, CostsOfKept());
    kept = KeepLargest(costs, kept,
                       LeftAfterRound(device_->node().experts.width, others_.count, round));
  }
}

// The rows that stay, in place of the expert's own.
Status DeviceRefill::PutRows(std::span<const size_t> kept, const Rows& own, const Rows& others) {
  if (own.buffer == nullptr) return Ok();
  std::vector<uint32_t> of_own, of_others;
  for (const size_t neuron : kept) {
    const auto row = static_cast<uint32_t>(neuron);
    if (row < own.count) of_own.push_back(row);
    if (row >= own.count) of_others.push_back(row - own.count);
  }
  const auto stay = static_cast<uint32_t>(of_own.size());
  SHARD_TRY(const Rows chosen, moved_.Take(executor(), own.count, own.width));
  executor().Gather(own, of_own, {}, chosen.Slice(0, stay));
  if (!of_others.empty())
    executor().Gather(others, of_others, {}, chosen.Slice(stay, own.count - stay));
  executor().Copy(chosen, own);
  return Ok();
}

Result<std::vector<float>> DeviceRefill::Put(size_t place, std::span<const size_t> kept) {
  const size_t places[] = {place};
  const DeviceExpert own = device_->expert(place);
  for (const NeuronPart& part : kNeuronParts) {
    SHARD_CHECK(PutRows(kept, own.*part.rows, others_.rows.*part.rows));
    if ((own.*part.bias).buffer != nullptr)
      SHARD_CHECK(PutRows(kept, AsColumn(own.*part.bias), AsColumn(others_.rows.*part.bias)));
  }
  SHARD_TRY(const Rows moved, moved_.Take(executor(), own.down.count, own.down.width));
  executor().Scale(own.down, 0);
  algebra().Change(solution_, own.down, moved);
  SHARD_CHECK(device_->ReadExperts(places));
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
