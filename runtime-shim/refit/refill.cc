#include "runtime-shim/refit/refill.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/refit/cholesky.h"
#include "runtime-shim/refit/device_refill.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {
namespace {

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
  for (uint32_t round = 0; round <= kRoundsOfRemoval; ++round) {
    TakeRows(normal.matrix, normal.size, selected.kept, true, jobs, selected.matrix);
    const auto factor = Cholesky::Of(selected.matrix, selected.kept.size(), jobs);
    if (!factor) return false;
    TakeRows(normal.right, normal.hidden, selected.kept, false, jobs, selected.down);
    factor->Solve(selected.down, normal.hidden, jobs);
    if (round == kRoundsOfRemoval) break;
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
    selected.kept = KeepLargest(costs, selected.kept, LeftAfterRound(count, extra, round));
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
        scores_(products, source, node),
        all_(TokensOfExperts(node, false)),
        fit_(TokensOfExperts(node, true)) {}

  Result<uint64_t> Run() {
    uint64_t moved = 0;
    const std::vector<size_t> places = ChangingExperts(node_, fit_);
    if (!places.empty()) SHARD_CHECK(Open());
    for (const size_t place : places) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_TRY(const uint64_t some, Refill(place));
      moved += some;
    }
    return moved;
  }

 private:
  Status Open() {
    // The refill gains more from the device than the scores do.
    SHARD_CHECK(scores_.Run(ScoredMemory(options_), DeviceRefill::BytesOf(node_, PoolSize())));
    SHARD_TRY(device_, DeviceRefill::Make(products_, source_, PoolSize(), node_));
    return Ok();
  }

  size_t PoolSize() const { return options_.pool > 0 ? options_.pool : node_.experts.width; }

  // Gate and up of these neurons, in that order: an expert without a down projection.
  Result<RefittedExperts> ReadAll(std::span<const Neuron> neurons) const {
    RefittedExperts read;
    read.hidden = node_.experts.hidden;
    read.width = neurons.size();
    read.expert_ids = {0};
    std::map<uint32_t, std::vector<uint32_t>> wanted;
    for (const Neuron& neuron : neurons) wanted[neuron.expert].push_back(neuron.index);
    std::map<uint32_t, RefittedExperts> sources;
    for (const auto& [id, indexes] : wanted) {
      SHARD_TRY(sources[id],
                ReadNeurons(*source_.weights, source_.sets, node_.experts.layer, id, indexes));
    }
    std::map<uint32_t, size_t> taken;
    for (const Neuron& neuron : neurons)
      AppendNeuron(sources[neuron.expert], taken[neuron.expert]++, read);
    return read;
  }

  // Row `row` of gate and up.
  static void AppendNeuron(const RefittedExperts& from, size_t row, RefittedExperts& to) {
    const auto add = [&](std::vector<float> RefittedExperts::*array, uint64_t columns) {
      if ((from.*array).empty()) return;
      const auto first = (from.*array).begin() + static_cast<ptrdiff_t>(row * columns);
      (to.*array).insert((to.*array).end(), first, first + static_cast<ptrdiff_t>(columns));
    };
    add(&RefittedExperts::gate, to.hidden);
    add(&RefittedExperts::up, to.hidden);
    add(&RefittedExperts::gate_bias, 1);
    add(&RefittedExperts::up_bias, 1);
  }

  // The neurons that join: the best candidates by exact scores.
  Result<std::vector<Neuron>> PoolOf(size_t place, std::span<const Neuron> candidates) {
    if (candidates.empty()) return std::vector<Neuron>();
    const ExpertTokens tokens = SomeTokens(fit_[place], kScoredTokens);
    SHARD_CHECK(TakeSample(node_, tokens.tokens, products_.jobs(), sample_));
    rows_.resize(tokens.tokens.size() * node_.experts.hidden);
    SHARD_CHECK(node_.inputs->Gather(tokens.tokens, rows_, products_.jobs()));
    SHARD_CHECK(
        products_.HoldTokens(node_.form, rows_, tokens.gates, sample_.roots, sample_.residuals));
    SHARD_TRY(const RefittedExperts read, ReadAll(candidates));
    SHARD_TRY(const NodeMatrices matrices, LoadExpert(read, 0, products_.executor()));
    std::vector<NeuronSize> sizes;
    SHARD_CHECK(products_.MeasureNeurons(matrices.experts[0], node_.form, sizes));
    std::vector<Neuron> best;
    for (const size_t at : LargestScores(ScoresOf(sizes), PoolSize()))
      best.push_back(candidates[at]);
    return best;
  }

  // Sets joined_ to the activations of the expert's own neurons and of those that join, for all of
  // its tokens: [t, F + pool].
  Status Join(size_t place, const RefittedExperts& others) {
    const ExpertTokens& tokens = all_[place];
    const size_t count = tokens.tokens.size(), width = node_.experts.width;
    SHARD_CHECK(TakeActivations(products_, node_, place, tokens, own_));
    rows_.resize(count * node_.experts.hidden);
    SHARD_CHECK(node_.inputs->Gather(tokens.tokens, rows_, products_.jobs()));
    others_.resize(count * others.width);
    if (others.width > 0) {
      SHARD_TRY(const NodeMatrices matrices, LoadExpert(others, 0, products_.executor()));
      SHARD_CHECK(
          products_.Activations(matrices.experts[0], node_.form, rows_, tokens.gates, others_));
    }
    const size_t size = width + others.width;
    joined_.resize(count * size);
    for (size_t i = 0; i < count; ++i) {
      std::copy_n(own_.data() + i * width, width, joined_.data() + i * size);
      std::copy_n(others_.data() + i * others.width, others.width,
                  joined_.data() + i * size + width);
    }
    return Ok();
  }

  // Rows of a table of the expert's tokens: those that count, times the roots of their weights.
  void TakeFitted(size_t place, std::span<const float> from, size_t columns,
                  std::vector<float>& to) const {
    const std::vector<uint32_t>& fit = fit_[place].tokens;
    to.resize(fit.size() * columns);
    size_t i = 0;
    for (size_t row = 0; i < fit.size(); ++row) {
      if (all_[place].tokens[row] != fit[i]) continue;
      std::copy_n(from.data() + row * columns, columns, to.data() + i++ * columns);
    }
    ScaleRows(sample_.roots, products_.jobs(), to);
  }

  // Sets normal_ to phi'phi and phi'(r + own part) of the joined neurons. `part` is the own part
  // of all the expert's tokens.
  Status MakeNormal(size_t place, size_t size, std::span<const float> part) {
    const size_t hidden = node_.experts.hidden;
    Normal& normal = normal_;
    normal.size = size;
    normal.hidden = hidden;
    normal.matrix.assign(size * size, 0);
    normal.right.assign(size * hidden, 0);
    SHARD_CHECK(TakeSample(node_, fit_[place].tokens, products_.jobs(), sample_));
    TakeFitted(place, joined_, size, scaled_);
    TakeFitted(place, part, hidden, rows_);
    for (size_t i = 0; i < rows_.size(); ++i) rows_[i] += sample_.residuals[i];
    SHARD_CHECK(products_.AddSquare({scaled_, size}, {normal.matrix.data(), size}));
    SHARD_CHECK(
        products_.AddProduct({scaled_, size}, {rows_, hidden}, {normal.right.data(), hidden}));
    double mean = 0;
    for (size_t i = 0; i < size; ++i)
      mean += normal.matrix[i * size + i] / static_cast<double>(size);
    normal.empty = mean == 0;
    for (size_t i = 0; i < size; ++i) normal.matrix[i * size + i] += options_.lambda * mean;
    return Ok();
  }

  Result<uint64_t> Refill(size_t place) {
    SHARD_TRY(const std::vector<Neuron> candidates, scores_.Best(place, kCandidates * PoolSize()));
    RefilledExpert refilled;
    if (device_ != nullptr) {
      SHARD_TRY(refilled, device_->Run(place, candidates, options_.lambda));
    } else {
      SHARD_TRY(refilled, RefillOnHost(place, candidates));
    }
    if (refilled.change.empty()) return 0;
    // The experts after this one see the residual that is left to them.
    SHARD_CHECK(node_.outputs->ScatterAdd(all_[place].tokens, refilled.change, products_.jobs()));
    return refilled.moved;
  }

  // As DeviceRefill::Run, with the products of any executor.
  Result<RefilledExpert> RefillOnHost(size_t place, std::span<const Neuron> candidates) {
    const size_t width = node_.experts.width;
    RefilledExpert refilled;
    SHARD_TRY(const std::vector<Neuron> pool, PoolOf(place, candidates));
    SHARD_TRY(const RefittedExperts others, ReadAll(pool));
    SHARD_CHECK(Join(place, others));
    SHARD_TRY(const std::vector<float> before, PartOf(place, own_));
    SHARD_CHECK(MakeNormal(place, width + others.width, before));
    if (normal_.empty) return refilled;
    if (!SelectNeurons(normal_, width, products_.jobs(), selected_))
      return ExpertNotDefinite(node_, place);
    Take(place, others);
    SHARD_TRY(refilled.change, PartOf(place, own_));
    for (size_t i = 0; i < before.size(); ++i) refilled.change[i] -= before[i];
    refilled.moved =
        static_cast<uint64_t>(std::count_if(selected_.kept.begin(), selected_.kept.end(),
                                            [&](size_t neuron) { return neuron >= width; }));
    return refilled;
  }

  // Puts the selected neurons in place of the expert's own, and their activations in own_.
  void Take(size_t place, const RefittedExperts& others) {
    RefittedExperts& own = node_.experts;
    const size_t width = own.width, hidden = own.hidden, size = width + others.width;
    const RefittedExperts before = TakeExperts(own, std::span(&place, 1));
    const auto copy = [&](std::vector<float> RefittedExperts::*array, size_t columns) {
      if ((own.*array).empty()) return;
      for (size_t neuron = 0; neuron < width; ++neuron) {
        const size_t kept = selected_.kept[neuron];
        const float* const from = kept < width ? (before.*array).data() + kept * columns
                                               : (others.*array).data() + (kept - width) * columns;
        std::copy_n(from, columns, (own.*array).data() + (place * width + neuron) * columns);
      }
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
    for (size_t row = 0; row < all_[place].tokens.size(); ++row) {
      for (size_t neuron = 0; neuron < width; ++neuron)
        own_[row * width + neuron] = joined_[row * size + selected_.kept[neuron]];
    }
    if (!node_.held.empty()) node_.held[place].values = own_;
  }

  // What an expert with these activations adds to the outputs of its tokens, without the bias of
  // its down projection.
  Result<std::vector<float>> PartOf(size_t place, std::span<const float> activations) {
    const size_t hidden = node_.experts.hidden, width = node_.experts.width;
    SHARD_TRY(const NodeMatrices matrices, LoadExpert(node_.experts, place, products_.executor()));
    std::vector<float> part(activations.size() / width * hidden);
    SHARD_CHECK(products_.Apply({matrices.experts[0].down.weight, {}}, activations, part));
    return part;
  }

  Products& products_;
  const RefitOptions& options_;
  const NeuronSource& source_;
  NodeLayer& node_;
  NeuronScores scores_;
  std::unique_ptr<DeviceRefill> device_;  // null where the host does the work
  const std::vector<ExpertTokens> all_, fit_;
  // Of the expert whose turn it is.
  ExpertSample sample_;
  Normal normal_;
  Selected selected_;
  std::vector<float> own_, others_, joined_;  // activations of all of its tokens
  std::vector<float> scaled_, rows_;
};

}  // namespace

ExpertTokens SomeTokens(const ExpertTokens& tokens, uint64_t wanted) {
  const size_t step = std::max<size_t>(1, tokens.tokens.size() / wanted);
  ExpertTokens some;
  for (size_t i = 0; i < tokens.tokens.size(); i += step) {
    some.tokens.push_back(tokens.tokens[i]);
    some.gates.push_back(tokens.gates[i]);
  }
  return some;
}

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

Error ExpertNotDefinite(const NodeLayer& node, size_t place) {
  return {Code::kInvalidArgument,
          Cat("layer ", node.experts.layer, ": expert ", node.experts.expert_ids[place],
              ": normal matrix: expected a positive definite one, found a singular one"),
          "a larger --lambda, or more text, makes it regular"};
}

Result<uint64_t> RefillExperts(Products& products, const RefitOptions& options,
                               const NeuronSource& source, NodeLayer& node) {
  return Refiller(products, options, source, node).Run();
}

}  // namespace moepack::runtime
