#include "runtime-shim/refit/tune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/gradient/gradients.h"
#include "runtime-shim/refit/router_descent.h"
#include "runtime-shim/refit/tuned_node.h"

namespace moepack::runtime {
namespace {

// Tokens that a thread takes back through the gates at a time.
constexpr size_t kTokensOfPiece = 256;

// The rate of each update. It rises at first, while the running means know little of the gradients,
// and falls to 0, so that the noise of the last batches does not stay in the values: over all
// updates, or sooner where the error of held-out tokens no longer falls.
class Schedule {
 public:
  explicit Schedule(const TuneOptions& options)
      : options_(options), end_(options.updates), from_rate_(options.rate) {}

  bool Ends(uint32_t update) const { return update >= end_; }
  double RateOf(uint32_t update) const {
    const uint32_t rise = std::min(options_.updates / 20, options_.rise);
    const double risen = update < rise ? (update + 1.0) / rise : 1;
    return risen * from_rate_ * (1 - static_cast<double>(update - from_) / (end_ - from_));
  }
  // Not before the first update: the error rises before it falls.
  bool Measures(uint32_t update) const {
    return !ending_ && options_.interval > 0 && update > 0 && update % options_.interval == 0;
  }
  // The error before this update.
  void Measured(uint32_t update, double error) {
    if (error < best_) {
      best_ = error;
      misses_ = 0;
    } else if (++misses_ >= options_.patience && end_ - update > options_.last) {
      from_rate_ = RateOf(update);
      from_ = update;
      end_ = update + options_.last;
      ending_ = true;
    }
  }

 private:
  const TuneOptions& options_;
  uint32_t end_, from_ = 0, misses_ = 0;
  double from_rate_, best_ = std::numeric_limits<double>::infinity();
  bool ending_ = false;
};

class Tuner {
 public:
  Tuner(Products& products, const TuneOptions& options, NodeLayer& node)
      : products_(products),
        options_(options),
        node_(node),
        changing_(ChangingExperts(node, TokensOfExperts(node, true))),
        tokens_(TokensWithWeight(node.fit_weights)),
        held_out_(Spread(TokensWithWeight(node.fold_weights), options.held_out)),
        batches_(tokens_.size(), TokensOfUpdate(options, node.experts.expert_ids.size(),
                                                node.routing.top_k, tokens_.size())),
        router_(products, node),
        router_rate_(node.experts.router),
        bias_rate_(node.experts.router_bias) {}

  Result<TuneLoss> Run() {
    TuneLoss loss;
    Schedule schedule(options_);
    if (!tokens_.empty()) SHARD_CHECK(Open());
    for (uint32_t update = 0; !schedule.Ends(update) && !tokens_.empty(); ++update) {
      if (!held_out_.empty() && schedule.Measures(update)) {
        SHARD_CHECK(RunBatch(held_out_));
        SHARD_TRY(const Missed held_out, MissedOf(node_.fold_weights));
        schedule.Measured(update, held_out.share());
      }
      SHARD_CHECK(RunBatch(NextBatch()));
      SHARD_TRY(const Missed sum, MissedOf(node_.fit_weights));
      // Without targets there is no gradient.
      const double share = sum.share();
      if (!std::isfinite(share)) break;
      if (update == 0) loss.first = share;
      loss.last = share;
      ++loss.updates;
      if (share == 0) continue;
      SHARD_CHECK(Move(sum, schedule.RateOf(update)));
    }
    if (tuned_ != nullptr) SHARD_CHECK(tuned_->Finish());
    return loss;
  }

 private:
  // The weighted squares of the targets, and what is missed of them.
  struct Missed {
    double missed = 0, all = 0;
    double share() const { return all > 0 ? missed / all : 0; }
  };

  Status Open() {
    const size_t most = std::max(held_out_.size(), batches_.size());
    SHARD_TRY(tuned_, TuneOnDevice(products_, node_, changing_, most));
    if (tuned_ == nullptr) tuned_ = TuneOnHost(products_, node_, changing_);
    return Ok();
  }

  // At most `count` of the tokens, spread evenly.
  static std::vector<uint32_t> Spread(const std::vector<uint32_t>& tokens, size_t count) {
    if (tokens.size() <= count) return tokens;
    std::vector<uint32_t> some;
    for (size_t i = 0; i < count; ++i) some.push_back(tokens[i * tokens.size() / count]);
    return some;
  }

  static std::vector<uint32_t> TokensWithWeight(std::span<const float> weights) {
    std::vector<uint32_t> tokens;
    for (uint32_t token = 0; token < weights.size(); ++token) {
      if (weights[token] != 0) tokens.push_back(token);
    }
    return tokens;
  }

  std::vector<uint32_t> NextBatch() {
    std::vector<uint32_t> batch = batches_.Next();
    for (uint32_t& row : batch) row = tokens_[row];
    return batch;
  }

  Status RunBatch(std::vector<uint32_t> batch) {
    batch_ = std::move(batch);
    SHARD_TRY(logits_, tuned_->Logits(batch_));
    SHARD_TRY(routes_, ChooseExperts(node_, logits_, products_.jobs()));
    return tuned_->Run(batch_, routes_);
  }

  Result<Missed> MissedOf(std::span<const float> weights) const {
    SHARD_TRY(const std::vector<TokenSquares> squares, tuned_->Measure());
    Missed sum;
    for (size_t row = 0; row < batch_.size(); ++row) {
      sum.missed += weights[batch_[row]] * squares[row].missed;
      sum.all += weights[batch_[row]] * squares[row].target;
    }
    return sum;
  }

  Status Move(const Missed& sum, double rate) {
    const double values =
        static_cast<double>(batch_.size()) * static_cast<double>(node_.experts.hidden);
    const double mean = sum.all / values;
    std::vector<float> factors;
    for (const uint32_t token : batch_)
      factors.push_back(static_cast<float>(2 * node_.fit_weights[token] / mean));
    SHARD_TRY(std::vector<double> by_gate, tuned_->Move(factors, rate));
    for (size_t choice = 0; choice < by_gate.size(); ++choice)
      by_gate[choice] *= node_.scale(routes_.places[choice]);
    return MovesRouter() ? MoveRouter(by_gate, rate) : Ok();
  }

  bool MovesRouter() const {
    return !node_.form.weigh_inputs && node_.experts.selection_bias.empty();
  }

  Status MoveRouter(std::span<const double> by_gate, double rate) {
    const size_t n = node_.experts.expert_ids.size(), k = routes_.top_k;
    std::vector<float> by_logit(logits_.size());
    ForPieces(batch_.size(), kTokensOfPiece, products_.jobs(), [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        const std::vector<double> gradient = GateGradient(
            node_.routing, std::span(logits_).subspan(row * n, n),
            std::span(routes_.places).subspan(row * k, k), by_gate.subspan(row * k, k));
        std::copy(gradient.begin(), gradient.end(),
                  by_logit.begin() + static_cast<ptrdiff_t>(row * n));
      }
    });
    SHARD_TRY(std::vector<double> by_row, tuned_->RouterGradient(by_logit));
    router_.StepBy(std::move(by_row), by_logit, router_rate_.Of(rate), bias_rate_.Of(rate));
    return Ok();
  }

  Products& products_;
  const TuneOptions& options_;
  NodeLayer& node_;
  const std::vector<size_t> changing_;
  const std::vector<uint32_t> tokens_, held_out_;  // those that count, and some of those held out
  Batches batches_;                                // of tokens_
  std::unique_ptr<TunedNode> tuned_;
  RouterDescent router_;
  const RelativeRate router_rate_, bias_rate_;
  // Of a batch.
  std::vector<uint32_t> batch_;
  std::vector<float> logits_;
  Routes routes_;
};

}  // namespace

uint64_t TokensOfUpdate(const TuneOptions& options, uint64_t n, uint64_t top_k, uint64_t tokens) {
  const auto most = static_cast<uint64_t>(options.share * static_cast<double>(tokens));
  return std::max<uint64_t>(1, std::min(options.expert_tokens * n / top_k, most));
}

Result<TuneLoss> TuneExperts(Products& products, const TuneOptions& options, NodeLayer& node) {
  return Tuner(products, options, node).Run();
}

}  // namespace moepack::runtime
