#include "runtime-shim/refit/device_ridge.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "libshard/base/parallel.h"
#include "runtime-shim/refit/device_node.h"
#include "runtime-shim/refit/ridge.h"

namespace moepack::runtime {
namespace {

// What both regressions need of a node on a device. Right sides are rows, as down projections are:
// [H, F] for an expert.
class DeviceRidge {
 public:
  DeviceRidge(std::unique_ptr<DeviceNode> device, std::span<const float> before)
      : device_(std::move(device)),
        before_(before),
        all_(TokensOfExperts(node(), false)),
        places_(ChangingExperts(node(), TokensOfExperts(node(), true))),
        width_(static_cast<uint32_t>(node().experts.width)),
        hidden_(static_cast<uint32_t>(node().experts.hidden)) {
    for (const ExpertTokens& tokens : all_) fitted_.push_back(FittedOf(node(), tokens));
  }

 protected:
  NodeLayer& node() const { return device_->node(); }
  Executor& executor() const { return device_->executor(); }
  DenseAlgebra& algebra() const { return device_->algebra(); }

  Status LoadBefore() {
    SHARD_TRY(before_buffer_, executor().Load(std::as_bytes(before_)));
    return Ok();
  }
  Rows BeforeOf(size_t place) const {
    return {before_buffer_.get(), place * hidden_ * width_, hidden_, width_, width_};
  }

  // The factors of the down projection for all tokens of an expert, [t, F].
  Result<Rows> ActivationsOf(size_t place) {
    SHARD_TRY(const Rows rows, activations_.Take(executor(), all_[place].tokens.size(), width_));
    SHARD_CHECK(device_->Activations(device_->expert(place), all_[place], rows));
    return rows;
  }
  // Of these, the rows of the tokens that are fitted, scaled by the roots of their weights.
  void TakeFitted(size_t place, const Rows& activations, const Rows& out) const {
    executor().Gather(activations, fitted_[place].positions, fitted_[place].roots, out);
  }

  // sides += phi'(Y - y)
  Status AddResiduals(size_t place, const Rows& scaled, const Doubles& sides) {
    const FittedTokens& fitted = fitted_[place];
    SHARD_TRY(const Rows rows, residuals_.Take(executor(), fitted.tokens.size(), hidden_));
    SHARD_CHECK(device_->Residuals(fitted.tokens, fitted.roots, rows));
    algebra().AddProduct(rows, scaled, kTokensOfSum, sides);
    return Ok();
  }

  Status FactorizeRidged(const Doubles& matrix, double ridge) const {
    algebra().AddToDiagonal(matrix, ridge);
    SHARD_TRY(const bool definite, algebra().Factorize(matrix));
    if (!definite) return NotDefinite(node());
    return Ok();
  }

  // Adds the solution to the projection; returns the change as floats.
  Result<Rows> ChangeDown(size_t place, const Doubles& solution) {
    SHARD_TRY(const Rows moved, moved_.Take(executor(), hidden_, width_));
    algebra().Change(solution, device_->expert(place).down, moved);
    return moved;
  }

  const std::unique_ptr<DeviceNode> device_;
  const std::span<const float> before_;  // W0 of all experts
  const std::vector<ExpertTokens> all_;
  const std::vector<size_t> places_;
  std::vector<FittedTokens> fitted_;  // by place
  const uint32_t width_, hidden_;
  BufferPtr before_buffer_;
  DeviceTable activations_, residuals_, moved_;
};

// One normal matrix for all experts that change (JointRidge in ridge.cc).
class DeviceJointRidge : public DeviceRidge {
 public:
  using DeviceRidge::DeviceRidge;

  Status Run(double lambda) {
    if (places_.empty()) return Ok();
    const size_t size = places_.size() * width_;
    SHARD_TRY(matrix_, matrix_table_.TakeDoubles(executor(), size, size));
    algebra().Clear(matrix_);
    SHARD_CHECK(AddMatrix());
    SHARD_TRY(const double mean, MeanDiagonalOf(algebra(), matrix_));
    if (mean == 0) return Ok();
    SHARD_TRY(const Doubles sides, sides_table_.TakeDoubles(executor(), hidden_, size));
    SHARD_CHECK(AddSides(lambda * mean, sides));
    SHARD_CHECK(FactorizeRidged(matrix_, lambda * mean));
    algebra().Solve(matrix_, sides);
    for (size_t i = 0; i < places_.size(); ++i)
      SHARD_CHECK(ChangeDown(places_[i], sides.Block(0, FirstOf(i), hidden_, width_)));
    return device_->ReadDown(places_);
  }

 private:
  uint32_t FirstOf(size_t i) const { return static_cast<uint32_t>(i) * width_; }

  Status AddMatrix() {
    scaled_tables_.resize(places_.size());
    for (size_t i = 0; i < places_.size(); ++i) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_TRY(const Rows activations, ActivationsOf(places_[i]));
      SHARD_TRY(const Rows scaled,
                scaled_tables_[i].Take(executor(), fitted_[places_[i]].tokens.size(), width_));
      TakeFitted(places_[i], activations, scaled);
      scaled_.push_back(scaled);
      AddBlock(scaled, i, scaled, i);
      // The matrix is symmetric, and the factorization reads one triangle.
      for (size_t j = 0; j < i; ++j) SHARD_CHECK(AddPair(j, i));
    }
    return Ok();
  }

  void AddBlock(const Rows& a, size_t i, const Rows& b, size_t j) {
    algebra().AddProduct(a, b, kTokensOfSum, matrix_.Block(FirstOf(i), FirstOf(j), width_, width_));
  }

  // What the tokens of both experts contribute.
  Status AddPair(size_t i, size_t j) {
    const std::vector<uint32_t>& first = fitted_[places_[i]].tokens;
    const std::vector<uint32_t>& second = fitted_[places_[j]].tokens;
    std::vector<uint32_t> of_first, of_second;
    for (uint32_t a = 0, b = 0; a < first.size() && b < second.size();) {
      if (first[a] == second[b]) {
        of_first.push_back(a++);
        of_second.push_back(b++);
      } else {
        ++(first[a] < second[b] ? a : b);
      }
    }
    if (of_first.empty()) return Ok();
    SHARD_TRY(const Rows a, left_.Take(executor(), of_first.size(), width_));
    SHARD_TRY(const Rows b, right_.Take(executor(), of_first.size(), width_));
    executor().Gather(scaled_[i], of_first, {}, a);
    executor().Gather(scaled_[j], of_second, {}, b);
    AddBlock(a, i, b, j);
    return Ok();
  }

  // phi'(Y - y) - r (W - W0)
  Status AddSides(double ridge, const Doubles& sides) {
    SHARD_CHECK(LoadBefore());
    for (size_t i = 0; i < places_.size(); ++i) {
      const size_t place = places_[i];
      const Doubles own = sides.Block(0, FirstOf(i), hidden_, width_);
      algebra().SetDifference(BeforeOf(place), device_->expert(place).down, ridge, own);
      SHARD_CHECK(AddResiduals(place, scaled_[i], own));
    }
    return Ok();
  }

  Doubles matrix_;
  DeviceTable matrix_table_, sides_table_, left_, right_;
  std::vector<DeviceTable> scaled_tables_;
  std::vector<Rows> scaled_;  // activations of the experts that change
};

// A normal matrix for each expert; an expert sees what the ones before it left. All factors are
// held.
class DeviceTurnRidge : public DeviceRidge {
 public:
  using DeviceRidge::DeviceRidge;

  Status Run(double lambda, uint32_t sweeps) {
    if (places_.empty()) return Ok();
    SHARD_CHECK(MakeFactors(lambda));
    if (!active_) return Ok();
    SHARD_CHECK(LoadBefore());
    for (uint32_t sweep = 0; sweep < sweeps; ++sweep) {
      for (size_t i = 0; i < places_.size(); ++i) {
        SHARD_CHECK(CheckInterrupt());
        SHARD_CHECK(Turn(i));
      }
    }
    SHARD_CHECK(device_->ReadDown(places_));
    return device_->ReadOutputs();
  }

 private:
  Doubles FactorAt(size_t i) const {
    return factors_.Block(static_cast<uint32_t>(i) * width_, 0, width_, width_);
  }

  Result<Rows> ScaledOf(size_t place, const Rows& activations) {
    SHARD_TRY(const Rows scaled, scaled_.Take(executor(), fitted_[place].tokens.size(), width_));
    TakeFitted(place, activations, scaled);
    return scaled;
  }

  Status MakeFactors(double lambda) {
    SHARD_TRY(factors_, factors_table_.TakeDoubles(executor(), places_.size() * width_, width_));
    algebra().Clear(factors_);
    double mean = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_TRY(const Rows activations, ActivationsOf(places_[i]));
      SHARD_TRY(const Rows scaled, ScaledOf(places_[i], activations));
      algebra().AddProduct(scaled, scaled, kTokensOfSum, FactorAt(i));
      SHARD_TRY(const double own, MeanDiagonalOf(algebra(), FactorAt(i)));
      mean += own / static_cast<double>(places_.size());
    }
    active_ = mean != 0;
    ridge_ = lambda * mean;
    for (size_t i = 0; active_ && i < places_.size(); ++i)
      SHARD_CHECK(FactorizeRidged(FactorAt(i), ridge_));
    return Ok();
  }

  // (phi'phi + r I) dW = phi'(Y - y) - r (W - W0), and then y += phi dW.
  Status Turn(size_t i) {
    const size_t place = places_[i];
    SHARD_TRY(const Doubles sides, sides_.TakeDoubles(executor(), hidden_, width_));
    // The ridge holds each expert to the weights before all sweeps, not to those of the last one.
    algebra().SetDifference(BeforeOf(place), device_->expert(place).down, ridge_, sides);
    SHARD_TRY(const Rows activations, ActivationsOf(place));
    SHARD_TRY(const Rows scaled, ScaledOf(place, activations));
    SHARD_CHECK(AddResiduals(place, scaled, sides));
    algebra().Solve(FactorAt(i), sides);
    SHARD_TRY(const Rows moved, ChangeDown(place, sides));
    SHARD_TRY(const Rows change, change_.Take(executor(), activations.count, hidden_));
    algebra().Multiply(Straight(activations), Turned(moved), change);
    executor().ScatterAdd(device_->outputs(), all_[place].tokens,
                          std::vector<float>(activations.count, 1), change);
    return Ok();
  }

  bool active_ = false;  // something is to be fitted
  double ridge_ = 0;     // r
  Doubles factors_;      // one below the other
  DeviceTable factors_table_, scaled_, sides_, change_;
};

// Bytes of the rows that a regression takes for one expert, if it has all tokens, and of its change
// and sums of products.
uint64_t BytesOfRidgeRows(const NodeLayer& node) {
  const uint64_t hidden = node.experts.hidden, width = node.experts.width;
  return (node.tokens() * 4 * (hidden + width) + 2 * hidden * width) * sizeof(float);
}

uint64_t BytesOfSystem(uint64_t size, uint64_t sides) {
  return size * (size + sides) * sizeof(double);
}

}  // namespace

Result<bool> RidgeJointlyOnDevice(Products& products, double lambda, std::span<const float> before,
                                  NodeLayer& node) {
  const uint64_t width = node.experts.width, size = node.experts.expert_ids.size() * width;
  const uint64_t phi = node.tokens() * node.routing.top_k * width * sizeof(float);
  const uint64_t more = BytesOfSystem(size, node.experts.hidden) + phi + before.size_bytes();
  SHARD_TRY(std::unique_ptr<DeviceNode> device,
            DeviceNode::Make(products, node, more + BytesOfRidgeRows(node)));
  if (device == nullptr) return false;
  SHARD_CHECK(DeviceJointRidge(std::move(device), before).Run(lambda));
  return true;
}

Result<bool> RidgeInTurnsOnDevice(Products& products, double lambda, std::span<const float> before,
                                  uint32_t sweeps, NodeLayer& node) {
  if (node.experts.width > DenseAlgebra::kMostEquations) return false;
  const uint64_t factors = node.experts.expert_ids.size() * BytesOfSystem(node.experts.width, 0) +
                           BytesOfSystem(node.experts.width, node.experts.hidden);
  SHARD_TRY(
      std::unique_ptr<DeviceNode> device,
      DeviceNode::Make(products, node, factors + before.size_bytes() + BytesOfRidgeRows(node)));
  if (device == nullptr) return false;
  SHARD_CHECK(DeviceTurnRidge(std::move(device), before).Run(lambda, sweeps));
  return true;
}

}  // namespace moepack::runtime
