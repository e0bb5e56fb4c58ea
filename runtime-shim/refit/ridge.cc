#include "runtime-shim/refit/ridge.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/refit/cholesky.h"
#include "runtime-shim/refit/device_ridge.h"

namespace moepack::runtime {
namespace {

// A factorization takes cubic time, so a larger matrix would cost more than the sweeps that replace
// it.
constexpr uint64_t kMostJoint = 16384;

// Adds the change of a down projection, [F, H], which is stored as [H, F].
void AddTransposed(std::span<const double> change, size_t hidden, size_t width,
                   std::span<float> down) {
  for (size_t neuron = 0; neuron < width; ++neuron) {
    for (size_t row = 0; row < hidden; ++row)
      down[row * width + neuron] =
          static_cast<float>(down[row * width + neuron] + change[neuron * hidden + row]);
  }
}

std::span<float> DownOf(NodeLayer& node, size_t place) {
  const size_t size = node.experts.hidden * node.experts.width;
  return std::span(node.experts.down).subspan(place * size, size);
}

double MeanDiagonal(std::span<const double> matrix, size_t size) {
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += matrix[i * size + i];
  return size > 0 ? sum / static_cast<double>(size) : 0;
}

void AddToDiagonal(std::span<double> matrix, size_t size, double value) {
  for (size_t i = 0; i < size; ++i) matrix[i * size + i] += value;
}

// Rows of `scaled` whose token is in `common`; both ascend.
std::vector<float> RowsAt(const std::vector<uint32_t>& tokens, const std::vector<float>& scaled,
                          const std::vector<uint32_t>& common, size_t width) {
  std::vector<float> rows;
  rows.reserve(common.size() * width);
  size_t row = 0;
  for (const uint32_t token : common) {
    while (tokens[row] != token) ++row;
    const auto first = scaled.begin() + static_cast<ptrdiff_t>(row * width);
    rows.insert(rows.end(), first, first + static_cast<ptrdiff_t>(width));
  }
  return rows;
}

// change = -r (W - W0) of the expert at this place, [F, H], where `before` has W0 of all experts.
void PullOf(const NodeLayer& node, std::span<const float> before, size_t place, double ridge,
            std::span<double> change) {
  const size_t width = node.experts.width, hidden = node.experts.hidden;
  const float* const now = node.experts.down.data() + place * hidden * width;
  const float* const then = before.data() + place * hidden * width;
  for (size_t row = 0; row < hidden; ++row) {
    for (size_t neuron = 0; neuron < width; ++neuron) {
      const size_t at = row * width + neuron;
      change[neuron * hidden + row] = -ridge * (double{now[at]} - then[at]);
    }
  }
}

// One normal matrix for all experts that change.
class JointRidge {
 public:
  JointRidge(Products& products, std::span<const float> before, NodeLayer& node)
      : products_(products),
        node_(node),
        before_(before),
        tokens_(TokensOfExperts(node, true)),
        places_(ChangingExperts(node, tokens_)),
        width_(node.experts.width),
        size_(places_.size() * width_) {}

  Status Run(double lambda) {
    if (places_.empty()) return Ok();
    const size_t hidden = node_.experts.hidden;
    matrix_.assign(size_ * size_, 0);
    std::vector<double> right(size_ * hidden, 0);
    SHARD_CHECK(AddOwn(right));
    for (size_t i = 0; i < places_.size(); ++i) {
      SHARD_CHECK(CheckInterrupt());
      // The matrix is symmetric, and the factorization reads one triangle.
      for (size_t j = i + 1; j < places_.size(); ++j) SHARD_CHECK(AddPair(i, j));
    }
    // Relative to the mean of the diagonal, lambda means the same in layers with large and small
    // inputs.
    const double mean = MeanDiagonal(matrix_, size_);
    if (mean == 0) return Ok();
    // The right side has residuals, Y - phi W0, so the ridge pulls the change of W to 0, not W.
    AddToDiagonal(matrix_, size_, lambda * mean);
    AddPull(lambda * mean, right);
    const auto factor = Cholesky::Of(matrix_, size_, products_.jobs());
    if (!factor) return NotDefinite(node_);
    factor->Solve(right, hidden, products_.jobs());
    const size_t one = width_ * hidden;
    for (size_t i = 0; i < places_.size(); ++i)
      AddTransposed(std::span(right).subspan(i * one, one), hidden, width_,
                    DownOf(node_, places_[i]));
    return Ok();
  }

 private:
  DoubleBlock BlockAt(size_t i, size_t j) {
    return {matrix_.data() + i * width_ * size_ + j * width_, size_};
  }

  void AddPull(double ridge, std::vector<double>& right) const {
    std::vector<double> pull(width_ * node_.experts.hidden, 0);
    for (size_t i = 0; i < places_.size(); ++i) {
      PullOf(node_, before_, places_[i], ridge, pull);
      for (size_t k = 0; k < pull.size(); ++k) right[i * pull.size() + k] += pull[k];
    }
  }

  Status AddOwn(std::vector<double>& right) {
    const size_t hidden = node_.experts.hidden;
    ExpertSample sample;
    for (size_t i = 0; i < places_.size(); ++i) {
      SHARD_CHECK(CheckInterrupt());
      const ExpertTokens& tokens = tokens_[places_[i]];
      SHARD_CHECK(TakeSample(node_, tokens.tokens, products_.jobs(), sample));
      std::vector<float> scaled;
      SHARD_CHECK(ScaledActivations(products_, node_, places_[i], tokens, scaled));
      const FloatTable own{scaled, width_};
      SHARD_CHECK(products_.AddSquare(own, BlockAt(i, i)));
      SHARD_CHECK(products_.AddProduct(own, {sample.residuals, hidden},
                                       {right.data() + i * width_ * hidden, hidden}));
      scaled_.push_back(std::move(scaled));
    }
    return Ok();
  }

  // The block of the upper triangle contributed by tokens of both experts.
  Status AddPair(size_t i, size_t j) {
    const std::vector<uint32_t>&first = tokens_[places_[i]].tokens,
          &second = tokens_[places_[j]].tokens;
    std::vector<uint32_t> common;
    std::set_intersection(first.begin(), first.end(), second.begin(), second.end(),
                          std::back_inserter(common));
    if (common.empty()) return Ok();
    const std::vector<float> a = RowsAt(first, scaled_[i], common, width_),
                             b = RowsAt(second, scaled_[j], common, width_);
    return products_.AddProduct({a, width_}, {b, width_}, BlockAt(i, j));
  }

  Products& products_;
  NodeLayer& node_;
  const std::span<const float> before_;  // W0 of all experts
  const std::vector<ExpertTokens> tokens_;
  const std::vector<size_t> places_;
  const size_t width_, size_;
  std::vector<double> matrix_;
  std::vector<std::vector<float>> scaled_;  // activations of the experts that change
};

// A normal matrix for each expert; an expert sees what the ones before it left. Factors that the
// memory has no room for are made again at each turn: activations do not change, so that these have
// the same bits.
class TurnRidge {
 public:
  TurnRidge(Products& products, std::span<const float> before, NodeLayer& node)
      : products_(products),
        node_(node),
        before_(before),
        all_(TokensOfExperts(node, false)),
        fit_(TokensOfExperts(node, true)),
        places_(ChangingExperts(node, fit_)) {}

  Status Run(const RefitOptions& options, uint32_t sweeps) {
    SHARD_CHECK(MakeFactors(options));
    if (!active_) return Ok();
    for (uint32_t sweep = 0; sweep < sweeps; ++sweep) {
      for (size_t i = 0; i < places_.size(); ++i) {
        SHARD_CHECK(CheckInterrupt());
        SHARD_CHECK(Turn(i));
      }
    }
    return Ok();
  }

 private:
  // phi'phi of an expert with these activations.
  Result<std::vector<double>> NormalOf(std::span<const float> scaled) {
    const size_t width = node_.experts.width;
    std::vector<double> matrix(width * width, 0);
    SHARD_CHECK(products_.AddSquare({scaled, width}, {matrix.data(), width}));
    return matrix;
  }

  // In the memory of `normal`.
  Result<Cholesky> FactorOf(std::vector<double>& normal, size_t jobs) const {
    AddToDiagonal(normal, node_.experts.width, ridge_);
    const auto factor = Cholesky::Of(normal, node_.experts.width, jobs);
    if (!factor) return NotDefinite(node_);
    return *factor;
  }

  // Sets r, and the factors of the first experts, as many as are held.
  Status MakeFactors(const RefitOptions& options) {
    const size_t width = node_.experts.width;
    const uint64_t held =
        FactorsHeld(places_.size(), width, node_.experts.hidden, options.matrix_memory());
    double mean = 0;
    for (const size_t place : places_) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_CHECK(ScaledActivations(products_, node_, place, fit_[place], scaled_));
      SHARD_TRY(std::vector<double> matrix, NormalOf(scaled_));
      mean += MeanDiagonal(matrix, width) / static_cast<double>(places_.size());
      if (held_.size() < held) held_.push_back(std::move(matrix));
    }
    active_ = mean != 0;
    if (!active_) return Ok();
    ridge_ = options.lambda * mean;
    std::vector<std::optional<Cholesky>> made(held_.size());
    SHARD_CHECK(ParallelFor(held_.size(), products_.jobs(), [&](size_t i) -> Status {
      SHARD_TRY(made[i], FactorOf(held_[i], 1));
      return Ok();
    }));
    for (const std::optional<Cholesky>& factor : made) factors_.push_back(*factor);
    return Ok();
  }

  // (phi'phi + r I) dW = phi'(Y - y) - r (W - W0), and then y += phi dW.
  Status Turn(size_t i) {
    const size_t width = node_.experts.width, hidden = node_.experts.hidden, place = places_[i];
    right_.resize(width * hidden);
    // The ridge holds each expert to the weights before all sweeps, not to those of the last one.
    PullOf(node_, before_, place, ridge_, right_);
    SHARD_CHECK(TakeSample(node_, fit_[place].tokens, products_.jobs(), sample_));
    SHARD_CHECK(ScaledActivations(products_, node_, place, fit_[place], scaled_));
    SHARD_CHECK(products_.AddProduct({scaled_, width}, {sample_.residuals, hidden},
                                     {right_.data(), hidden}));
    std::optional<Cholesky> own;
    std::vector<double> normal;
    if (i >= factors_.size()) {
      SHARD_TRY(normal, NormalOf(scaled_));
      SHARD_TRY(own, FactorOf(normal, products_.jobs()));
    }
    (own ? *own : factors_[i]).Solve(right_, hidden, products_.jobs());
    AddTransposed(right_, hidden, width, DownOf(node_, place));
    return AddOutputs(place, right_);
  }

  Status AddOutputs(size_t place, std::span<const double> change) {
    const size_t hidden = node_.experts.hidden;
    const ExpertTokens& tokens = all_[place];
    const std::vector<float> moved(change.begin(), change.end());
    SHARD_CHECK(TakeActivations(products_, node_, place, tokens, scaled_));
    rows_.resize(tokens.tokens.size() * hidden);
    SHARD_CHECK(products_.MultiplyBy({moved, hidden}, scaled_, rows_));
    return node_.outputs->ScatterAdd(tokens.tokens, rows_, products_.jobs());
  }

  Products& products_;
  NodeLayer& node_;
  const std::span<const float> before_;  // W0 of all experts
  const std::vector<ExpertTokens> all_, fit_;
  const std::vector<size_t> places_;
  bool active_ = false;                    // something is to be fitted
  double ridge_ = 0;                       // r
  std::vector<std::vector<double>> held_;  // the memory of factors_
  std::vector<Cholesky> factors_;
  // Of the expert whose turn it is.
  std::vector<double> right_;
  ExpertSample sample_;
  std::vector<float> scaled_, rows_;
};

uint64_t ChosenTokens(const NodeLayer& node) {
  uint64_t chosen = 0;
  for (const float weight : node.fit_weights) chosen += weight != 0 ? node.routes.top_k : 0;
  return chosen;
}

}  // namespace

Error NotDefinite(const NodeLayer& node) {
  return {Code::kInvalidArgument,
          Cat("layer ", node.experts.layer, ": group ", node.experts.group,
              ": normal matrix: expected a positive definite one, found a singular one"),
          "a larger --lambda, or more text, makes it regular"};
}

bool RidgeIsJoint(uint64_t experts, uint64_t width, uint64_t chosen_tokens, uint64_t memory) {
  const uint64_t size = experts * width;
  if (size > kMostJoint) return false;
  return size * size * sizeof(double) + chosen_tokens * width * sizeof(float) <= memory;
}

uint64_t FactorsHeld(uint64_t experts, uint64_t width, uint64_t hidden, uint64_t memory) {
  const uint64_t changes = experts * width * hidden * sizeof(float);
  const uint64_t one = std::max<uint64_t>(1, width * width * sizeof(double));
  return memory > changes ? std::min(experts, (memory - changes) / one) : 0;
}

Status RidgeDown(Products& products, const RefitOptions& options, NodeLayer& node) {
  const std::vector<float> before = node.experts.down;
  return RidgeFrom(products, options, before, options.sweeps, node);
}

Status RidgeFrom(Products& products, const RefitOptions& options, std::span<const float> before,
                 uint32_t sweeps, NodeLayer& node) {
  if (!RidgeTakesTurns(options, node)) {
    SHARD_TRY(const bool done, RidgeJointlyOnDevice(products, options.lambda, before, node));
    return done ? Ok() : JointRidge(products, before, node).Run(options.lambda);
  }
  SHARD_TRY(const bool done, RidgeInTurnsOnDevice(products, options.lambda, before, sweeps, node));
  return done ? Ok() : TurnRidge(products, before, node).Run(options, sweeps);
}

bool RidgeTakesTurns(const RefitOptions& options, const NodeLayer& node) {
  return !RidgeIsJoint(node.experts.expert_ids.size(), node.experts.width, ChosenTokens(node),
                       options.matrix_memory());
}

}  // namespace moepack::runtime
