#include "runtime-shim/refit/tune.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/gradient/gradients.h"
#include "runtime-shim/refit/router_descent.h"
#include "runtime-shim/refit/tuned_expert.h"

namespace moepack::runtime {
namespace {

// Tokens that a thread takes back through the gates at a time.
constexpr size_t kTokensOfPiece = 256;

// The tokens of a batch that chose an expert: their rows, and their choices in the batch's routes.
struct ExpertChoices {
  std::vector<uint32_t> rows;
  std::vector<size_t> choices;
};

std::vector<float> GatherRows(std::span<const float> from, size_t width,
                              std::span<const uint32_t> rows) {
  std::vector<float> out;
  out.reserve(rows.size() * width);
  for (const uint32_t row : rows) {
    const auto values = from.subspan(row * width, width);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

// The rate of each update. It falls to 0, so that the noise of the last batches does not stay in
// the values: over all updates, or sooner where the error of held-out tokens no longer falls.
class Schedule {
 public:
  explicit Schedule(const TuneOptions& options)
      : options_(options), end_(options.updates), from_rate_(options.rate) {}

  bool Ends(uint32_t update) const { return update >= end_; }
  double RateOf(uint32_t update) const {
    return from_rate_ * (1 - static_cast<double>(update - from_) / (end_ - from_));
  }
  bool Measures(uint32_t update) const {
    return !ending_ && options_.interval > 0 && update % options_.interval == 0;
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
        hidden_(node.experts.hidden),
        router_(products, node),
        router_size_(RootMeanSquare(node.experts.router)),
        bias_size_(RootMeanSquare(node.experts.router_bias)) {
    for (uint32_t token = 0; token < node.tokens(); ++token) {
      if (node.fit_weights[token] != 0) tokens_.push_back(token);
      if (node.fold_weights[token] != 0) held_out_.push_back(token);
    }
    held_out_ = Spread(held_out_, options.held_out);
    const std::vector<size_t> changing = ChangingExperts(node, TokensOfExperts(node, true));
    for (size_t place = 0; place < node.experts.expert_ids.size(); ++place)
      experts_.emplace_back(products, node, place,
                            std::binary_search(changing.begin(), changing.end(), place));
  }

  Result<TuneLoss> Run() {
    TuneLoss loss;
    Schedule schedule(options_);
    for (uint32_t update = 0; !schedule.Ends(update) && !tokens_.empty(); ++update) {
      if (!held_out_.empty() && schedule.Measures(update)) {
        SHARD_CHECK(ReadBatch(held_out_));
        SHARD_CHECK(RunExperts());
        schedule.Measured(update, MissedOf(node_.fold_weights).share());
      }
      SHARD_CHECK(ReadBatch(Draw(update)));
      SHARD_CHECK(RunExperts());
      const double share = TakeLoss();
      if (!std::isfinite(share)) break;
      if (update == 0) loss.first = share;
      loss.last = share;
      ++loss.updates;
      if (share == 0) continue;
      SHARD_CHECK(Move(schedule.RateOf(update)));
    }
    return loss;
  }

 private:
  // The weighted squares of the targets, and what is missed of them.
  struct Missed {
    double missed = 0, all = 0;
    double share() const { return all > 0 ? missed / all : 0; }
  };

  // At most `count` of the tokens, spread evenly.
  static std::vector<uint32_t> Spread(const std::vector<uint32_t>& tokens, size_t count) {
    if (tokens.size() <= count) return tokens;
    std::vector<uint32_t> some;
    for (size_t i = 0; i < count; ++i) some.push_back(tokens[i * tokens.size() / count]);
    return some;
  }

  std::vector<uint32_t> Draw(uint32_t update) const {
    const uint64_t size =
        TokensOfUpdate(options_, experts_.size(), node_.routing.top_k, tokens_.size());
    std::vector<uint32_t> batch = DrawBatch(tokens_.size(), size, update);
    for (uint32_t& row : batch) row = tokens_[row];
    return batch;
  }

  Status ReadBatch(std::vector<uint32_t> batch) {
    batch_ = std::move(batch);
    inputs_.resize(batch_.size() * hidden_);
    targets_.resize(inputs_.size());
    router_inputs_.resize(batch_.size() * node_.experts.router_width);
    SHARD_CHECK(node_.inputs->Gather(batch_, inputs_, products_.jobs()));
    SHARD_CHECK(node_.targets->Gather(batch_, targets_, products_.jobs()));
    return node_.router_inputs->Gather(batch_, router_inputs_, products_.jobs());
  }

  // Leaves the sum of the experts' outputs minus the targets.
  Status RunExperts() {
    const size_t n = experts_.size();
    logits_.resize(batch_.size() * n);
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node_.experts, products_.executor()));
    SHARD_CHECK(products_.Project(matrices.router, router_inputs_, logits_));
    SHARD_TRY(routes_, ChooseExperts(node_, logits_, products_.jobs()));
    chosen_.assign(n, {});
    for (size_t choice = 0; choice < routes_.places.size(); ++choice) {
      ExpertChoices& expert = chosen_[routes_.places[choice]];
      expert.rows.push_back(static_cast<uint32_t>(choice / routes_.top_k));
      expert.choices.push_back(choice);
    }
    residuals_.resize(targets_.size());
    std::transform(targets_.begin(), targets_.end(), residuals_.begin(), std::negate<>());
    for (size_t place = 0; place < n; ++place) {
      if (!chosen_[place].rows.empty()) SHARD_CHECK(RunExpert(place));
    }
    return Ok();
  }

  Status RunExpert(size_t place) {
    SHARD_CHECK(CheckInterrupt());
    const ExpertChoices& own = chosen_[place];
    std::vector<float> inputs = GatherRows(inputs_, hidden_, own.rows);
    const bool weigh = node_.form.weigh_inputs;
    for (size_t i = 0; weigh && i < inputs.size(); ++i)
      inputs[i] *= routes_.gates[own.choices[i / hidden_]];
    std::vector<float> outputs(inputs.size());
    SHARD_CHECK(experts_[place].Run(std::move(inputs), outputs));
    // A token chooses an expert once, so that threads add to rows of their own.
    ForPieces(own.rows.size(), RowsWorthAThread(hidden_), products_.jobs(),
              [&](size_t begin, size_t end) {
                for (size_t i = begin; i < end; ++i) {
                  const float factor = weigh ? 1 : routes_.gates[own.choices[i]];
                  for (size_t k = 0; k < hidden_; ++k)
                    residuals_[own.rows[i] * hidden_ + k] += factor * outputs[i * hidden_ + k];
                }
              });
    return Ok();
  }

  Missed MissedOf(std::span<const float> weights) const {
    Missed sum;
    for (size_t row = 0; row < batch_.size(); ++row) {
      double errors = 0, squares = 0;
      for (size_t i = row * hidden_; i < (row + 1) * hidden_; ++i) {
        errors += double{residuals_[i]} * residuals_[i];
        squares += double{targets_[i]} * targets_[i];
      }
      sum.missed += weights[batch_[row]] * errors;
      sum.all += weights[batch_[row]] * squares;
    }
    return sum;
  }

  // Turns the residuals into the gradient of the loss with respect to them. Returns which share of
  // the targets is missed; 0, without a gradient, if they are all 0.
  double TakeLoss() {
    const Missed sum = MissedOf(node_.fit_weights);
    if (sum.all == 0) return 0;
    const double mean = sum.all / static_cast<double>(targets_.size());
    for (size_t row = 0; row < batch_.size(); ++row) {
      const auto factor = static_cast<float>(2 * node_.fit_weights[batch_[row]] / mean);
      for (float& value : std::span(residuals_).subspan(row * hidden_, hidden_)) value *= factor;
    }
    return sum.share();
  }

  Status Move(double rate) {
    std::vector<double> by_gate(routes_.gates.size());
    for (size_t place = 0; place < experts_.size(); ++place) {
      const ExpertChoices& own = chosen_[place];
      if (own.rows.empty()) continue;
      std::vector<float> factors;
      for (const size_t choice : own.choices)
        factors.push_back(node_.form.weigh_inputs ? 1 : routes_.gates[choice]);
      SHARD_TRY(
          const std::vector<double> by_factor,
          experts_[place].Back(GatherRows(residuals_, hidden_, own.rows), factors, rate, scratch_));
      for (size_t i = 0; i < by_factor.size(); ++i)
        by_gate[own.choices[i]] = by_factor[i] * node_.scale(place);
    }
    return MovesRouter() ? MoveRouter(by_gate, rate) : Ok();
  }

  bool MovesRouter() const {
    return !node_.form.weigh_inputs && node_.experts.selection_bias.empty();
  }

  Status MoveRouter(std::span<const double> by_gate, double rate) {
    const size_t n = experts_.size(), k = routes_.top_k;
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
    return router_.Step(router_inputs_, by_logit, rate * router_size_, rate * bias_size_);
  }

  Products& products_;
  const TuneOptions& options_;
  NodeLayer& node_;
  const size_t hidden_;
  std::vector<uint32_t> tokens_, held_out_;  // those that count, and some of those held out
  std::vector<TunedExpert> experts_;
  RouterDescent router_;
  const double router_size_, bias_size_;
  // Of a batch.
  std::vector<uint32_t> batch_;
  std::vector<float> inputs_, router_inputs_, targets_, residuals_, logits_;
  Routes routes_;
  std::vector<ExpertChoices> chosen_;  // by place
  std::vector<float> scratch_;
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
