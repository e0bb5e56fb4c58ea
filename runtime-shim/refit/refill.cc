#include "runtime-shim/refit/refill.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/refit/cholesky.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {
namespace {

// ---- Scores of neurons

struct Neuron {
  uint32_t expert = 0, index = 0;
};

// Keeps a score from growing without bound if a neuron hardly ever fires: a share of the mean.
constexpr double kQuietShare = 1e-3;

ExpertSample EveryNth(const ExpertSample& sample, size_t hidden, size_t step) {
  ExpertSample some;
  const size_t count = (sample.gates.size() + step - 1) / step;
  some.inputs.reserve(count * hidden);
  some.residuals.reserve(count * hidden);
  for (size_t row = 0; row < sample.gates.size(); row += step) {
    const auto first = static_cast<ptrdiff_t>(row * hidden),
               last = first + static_cast<ptrdiff_t>(hidden);
    some.inputs.insert(some.inputs.end(), sample.inputs.begin() + first,
                       sample.inputs.begin() + last);
    some.residuals.insert(some.residuals.end(), sample.residuals.begin() + first,
                          sample.residuals.begin() + last);
    some.gates.push_back(sample.gates[row]);
    some.roots.push_back(sample.roots[row]);
  }
  return some;
}

// What the best multiple of a neuron's activation takes from the residual is |phi'r|^2 / phi'phi
// (matching pursuit, Mallat and Zhang 1993).
void AddScores(std::span<const NeuronSize> neurons, std::vector<double>& scores) {
  const auto square = [](float norm) { return double{norm} * norm; };
  double mean = 0;
  for (const NeuronSize& neuron : neurons)
    mean += square(neuron.own) / static_cast<double>(neurons.size());
  for (const NeuronSize& neuron : neurons) {
    const double size = square(neuron.own) + kQuietShare * mean;
    scores.push_back(size > 0 ? square(neuron.explained) / size : 0);
  }
}

// Returns the `pool` neurons with the highest scores (refill.h), best first, from all experts but
// `self`. Every n-th row of the sample counts, so that there are about `scored_tokens`. If scores
// are equal, the lower expert and the lower index win.
Result<std::vector<Neuron>> BestNeurons(Products& products, const RefitOptions& options,
                                        const NeuronSource& source, const NodeLayer& node,
                                        uint32_t self, const ExpertSample& sample) {
  const size_t hidden = node.experts.hidden;
  const uint64_t step = std::max<uint64_t>(1, sample.gates.size() / kScoredTokens);
  const ExpertSample some = EveryNth(sample, hidden, step);
  std::vector<Neuron> neurons;
  std::vector<double> scores;
  std::vector<NeuronSize> sizes;
  SHARD_CHECK(products.HoldTokens(node.form, some.inputs, some.gates, some.roots, some.residuals));
  for (uint32_t id = 0; id < source.experts.size(); ++id) {
    if (id == self || source.experts[id] == nullptr) continue;
    SHARD_CHECK(products.MeasureNeurons(*source.experts[id], node.form, sizes));
    AddScores(sizes, scores);
    for (uint32_t index = 0; index < sizes.size(); ++index) neurons.push_back({id, index});
  }
  std::vector<size_t> order(neurons.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(
      std::min<size_t>(order.size(), options.pool > 0 ? options.pool : node.experts.width));
  std::vector<Neuron> best;
  for (const size_t place : order) best.push_back(neurons[place]);
  return best;
}

// ----

// Costs change once neurons are gone, so half of them go first, and the others by new costs.
constexpr uint32_t kRounds = 2;

// Rows of a matrix that a thread copies at a time.
constexpr size_t kRowsCopied = 64;

// out = some rows of a matrix of `columns` values, or some rows and columns of a symmetric one.
void TakeRows(std::span<const double> matrix, size_t columns, std::span<const size_t> rows,
              bool symmetric, size_t jobs, std::vector<double>& out) {
  const size_t wide = symmetric ? rows.size() : columns;
  out.resize(rows.size() * wide);
  ForPieces(rows.size(), kRowsCopied, jobs, [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const auto own = matrix.subspan(rows[i] * columns, columns);
      const auto to = std::span(out).subspan(i * wide, wide);
      if (!symmetric) std::copy(own.begin(), own.end(), to.begin());
      for (size_t j = 0; symmetric && j < wide; ++j) to[j] = own[rows[j]];
    }
  });
}

// sums[i] += row * (row i of `columns`), for rows of row.size() values. Each sum is added up in the
// order of its row; several at a time, because one alone would wait for each of its additions.
template <size_t kCount>
void AddProducts(std::span<const double> row, const float* columns, double* sums) {
  double parts[kCount] = {};
  for (size_t k = 0; k < row.size(); ++k) {
    for (size_t i = 0; i < kCount; ++i) parts[i] += row[k] * columns[i * row.size() + k];
  }
  for (size_t i = 0; i < kCount; ++i) sums[i] += parts[i];
}

struct Normal {
  size_t size = 0, hidden = 0;
  std::vector<double> matrix, right;  // [size, size], [size, hidden]
  bool empty = false;                 // nothing was activated
};

// Which neurons stay, ascending, and their rows of the new down projection.
struct Selected {
  std::vector<size_t> kept;
  std::vector<double> down;    // [kept, hidden]
  std::vector<double> matrix;  // scratch
};

// False if the matrix is not positive definite.
bool SelectNeurons(const Normal& normal, size_t count, size_t jobs, Selected& selected) {
  selected.kept.resize(normal.size);
  std::iota(selected.kept.begin(), selected.kept.end(), size_t{0});
  const size_t extra = normal.size - count;
  for (uint32_t round = 0; round <= kRounds; ++round) {
    TakeRows(normal.matrix, normal.size, selected.kept, true, jobs, selected.matrix);
    const auto factor = Cholesky::Of(selected.matrix, selected.kept.size(), jobs);
    if (!factor) return false;
    TakeRows(normal.right, normal.hidden, selected.kept, false, jobs, selected.down);
    factor->Solve(selected.down, normal.hidden, jobs);
    if (round == kRounds) break;
    const std::vector<double> inverse = factor->InverseDiagonal(jobs);
    std::vector<double> costs;
    for (size_t i = 0; i < selected.kept.size(); ++i) {
      double squares = 0;
      for (const double value : std::span(selected.down).subspan(i * normal.hidden, normal.hidden))
        squares += value * value;
      // By how much the error grows without neuron i: |W_i|^2 / (A^-1)_ii (optimal brain surgeon,
      // Hassibi and Stork 1993).
      costs.push_back(squares / inverse[i]);
    }
    std::vector<size_t> order(costs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return costs[a] > costs[b]; });
    order.resize(count + extra * (kRounds - 1 - round) / kRounds);
    // In the order of the neurons, so that an expert whose own neurons all stay keeps its rows.
    std::sort(order.begin(), order.end());
    for (size_t& place : order) place = selected.kept[place];
    selected.kept = std::move(order);
  }
  return true;
}

class Refiller {
 public:
  Refiller(Products& products, const RefitOptions& options, const NeuronSource& source,
           NodeLayer& node)
      : products_(products),
        options_(options),
        source_(source),
        node_(node),
        all_(TokensOfExperts(node, false)),
        fit_(TokensOfExperts(node, true)) {}

  Result<uint64_t> Run() {
    uint64_t moved = 0;
    for (const size_t place : ChangingExperts(node_, fit_)) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_TRY(const uint64_t some, Refill(place));
      moved += some;
    }
    return moved;
  }

 private:
  // The expert's neurons and those that join, in that order; without down projections.
  Result<RefittedExperts> Joined(size_t place, std::span<const Neuron> pool) const {
    RefittedExperts joined = TakeExperts(node_.experts, std::span(&place, 1));
    joined.down.clear();
    joined.down_bias.clear();
    joined.router.clear();
    std::map<uint32_t, std::vector<uint32_t>> wanted;
    for (const Neuron& neuron : pool) wanted[neuron.expert].push_back(neuron.index);
    std::map<uint32_t, RefittedExperts> sources;
    for (const auto& [id, neurons] : wanted) {
      SHARD_TRY(sources[id],
                ReadNeurons(*source_.weights, source_.sets, node_.experts.layer, id, neurons));
    }
    std::map<uint32_t, size_t> taken;
    for (const Neuron& neuron : pool) {
      const RefittedExperts& other = sources[neuron.expert];
      const size_t row = taken[neuron.expert]++;
      const auto add = [&](std::vector<float> RefittedExperts::*array, uint64_t columns) {
        if ((other.*array).empty()) return;
        const auto first = (other.*array).begin() + static_cast<ptrdiff_t>(row * columns);
        (joined.*array)
            .insert((joined.*array).end(), first, first + static_cast<ptrdiff_t>(columns));
      };
      add(&RefittedExperts::gate, joined.hidden);
      add(&RefittedExperts::up, joined.hidden);
      add(&RefittedExperts::gate_bias, 1);
      add(&RefittedExperts::up_bias, 1);
    }
    joined.width += pool.size();
    return joined;
  }

  // Sets normal_ to phi'phi and phi'(r + own part) of the joined neurons; scaled_ is phi.
  Status MakeNormal(size_t place, size_t size) {
    Normal& normal = normal_;
    normal.size = size;
    normal.hidden = node_.experts.hidden;
    normal.matrix.assign(size * size, 0);
    normal.right.assign(size * normal.hidden, 0);
    SHARD_CHECK(
        products_.AddProduct({scaled_, size}, {scaled_, size}, {normal.matrix.data(), size}));
    SHARD_CHECK(products_.AddProduct({scaled_, size}, {sample_.residuals, normal.hidden},
                                     {normal.right.data(), normal.hidden}));
    // The own part is phi W of the expert's neurons, so phi' times it is phi'phi W.
    const size_t width = node_.experts.width, hidden = normal.hidden;
    const auto down = std::span(node_.experts.down).subspan(place * hidden * width, hidden * width);
    SHARD_CHECK(ParallelFor(size, products_.jobs(), [&](size_t row) -> Status {
      double* const right = normal.right.data() + row * hidden;
      const auto own = std::span(normal.matrix).subspan(row * size, width);
      size_t column = 0;
      for (; column + 8 <= hidden; column += 8)
        AddProducts<8>(own, down.data() + column * width, right + column);
      for (; column < hidden; ++column)
        AddProducts<1>(own, down.data() + column * width, right + column);
      return Ok();
    }));
    double mean = 0;
    for (size_t i = 0; i < size; ++i)
      mean += normal.matrix[i * size + i] / static_cast<double>(size);
    normal.empty = mean == 0;
    for (size_t i = 0; i < size; ++i) normal.matrix[i * size + i] += options_.lambda * mean;
    return Ok();
  }

  Result<uint64_t> Refill(size_t place) {
    const size_t width = node_.experts.width;
    SHARD_CHECK(TakeSample(node_, fit_[place], products_.jobs(), sample_));
    SHARD_TRY(
        const std::vector<Neuron> pool,
        BestNeurons(products_, options_, source_, node_, node_.experts.expert_ids[place], sample_));
    SHARD_TRY(const RefittedExperts joined, Joined(place, pool));
    SHARD_TRY(const NodeMatrices matrices, LoadMatrices(joined, products_.executor()));
    SHARD_CHECK(ScaledActivations(products_, node_, matrices.experts[0], sample_, scaled_));
    SHARD_CHECK(MakeNormal(place, joined.width));
    if (normal_.empty) return 0;
    if (!SelectNeurons(normal_, width, products_.jobs(), selected_))
      return Error{Code::kInvalidArgument,
                   Cat("layer ", node_.experts.layer, ": expert ", node_.experts.expert_ids[place],
                       ": normal matrix: expected a positive definite one, found a singular one"),
                   "a larger --lambda, or more text, makes it regular"};
    // The expert's old part leaves the node's output before the new one enters, so that the experts
    // after it see the residual that is left to them.
    SHARD_CHECK(AddOutputs(place, -1));
    Take(place, joined);
    SHARD_CHECK(AddOutputs(place, 1));
    return static_cast<uint64_t>(std::count_if(selected_.kept.begin(), selected_.kept.end(),
                                               [&](size_t neuron) { return neuron >= width; }));
  }

  void Take(size_t place, const RefittedExperts& joined) {
    RefittedExperts& own = node_.experts;
    const size_t width = own.width, hidden = own.hidden;
    const auto copy = [&](std::vector<float> RefittedExperts::*array, size_t columns) {
      if ((joined.*array).empty()) return;
      for (size_t neuron = 0; neuron < width; ++neuron)
        std::copy_n(
            (joined.*array).begin() + static_cast<ptrdiff_t>(selected_.kept[neuron] * columns),
            columns,
            (own.*array).begin() + static_cast<ptrdiff_t>((place * width + neuron) * columns));
    };
    copy(&RefittedExperts::gate, hidden);
    copy(&RefittedExperts::up, hidden);
    copy(&RefittedExperts::gate_bias, 1);
    copy(&RefittedExperts::up_bias, 1);
    const auto down = std::span(own.down).subspan(place * hidden * width, hidden * width);
    for (size_t row = 0; row < hidden; ++row) {
      for (size_t neuron = 0; neuron < width; ++neuron)
        down[row * width + neuron] = static_cast<float>(selected_.down[neuron * hidden + row]);
    }
  }

  // outputs += sign * the expert's output for its tokens, without biases of its down projection.
  Status AddOutputs(size_t place, float sign) {
    const size_t hidden = node_.experts.hidden;
    RefittedExperts one = TakeExperts(node_.experts, std::span(&place, 1));
    one.down_bias.clear();
    SHARD_TRY(const NodeMatrices matrices, LoadMatrices(one, products_.executor()));
    const ExpertTokens& tokens = all_[place];
    rows_.resize(tokens.tokens.size() * hidden);
    SHARD_CHECK(node_.inputs->Gather(tokens.tokens, rows_, products_.jobs()));
    scaled_.resize(tokens.tokens.size() * one.width);
    SHARD_CHECK(
        products_.Activations(matrices.experts[0], node_.form, rows_, tokens.gates, scaled_));
    SHARD_CHECK(products_.Project(matrices.experts[0].down, scaled_, rows_));
    for (float& value : rows_) value *= sign;
    return node_.outputs->ScatterAdd(tokens.tokens, rows_, products_.jobs());
  }

  Products& products_;
  const RefitOptions& options_;
  const NeuronSource& source_;
  NodeLayer& node_;
  const std::vector<ExpertTokens> all_, fit_;
  // Of the expert whose turn it is.
  ExpertSample sample_;
  Normal normal_;
  Selected selected_;
  std::vector<float> scaled_, rows_;
};

}  // namespace

Result<uint64_t> RefillExperts(Products& products, const RefitOptions& options,
                               const NeuronSource& source, NodeLayer& node) {
  return Refiller(products, options, source, node).Run();
}

}  // namespace moepack::runtime
