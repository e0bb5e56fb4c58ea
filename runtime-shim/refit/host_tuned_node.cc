// A node's experts during a tuning, with the products of any executor.
#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/refit/tuned_expert.h"
#include "runtime-shim/refit/tuned_node.h"

namespace moepack::runtime {
namespace {

// The scratch of as many threads as run experts. Borrows the products, and lends them where they
// are not the host's: a device has one set of tables.
class ScratchPool {
 public:
  ScratchPool(Products& products, size_t count, size_t jobs) {
    if (!products.on_host()) {
      all_.push_back({products, {}, {}});
    } else {
      for (size_t i = 0; i < count; ++i)
        all_.push_back({own_.emplace_back(products.executor(), jobs), {}, {}});
    }
    for (TunedScratch& scratch : all_) free_.push_back(&scratch);
  }

  // Holds a scratch until it is destroyed. REQUIRES: one is free.
  class Lease {
   public:
    explicit Lease(ScratchPool& pool) : pool_(pool) {
      const std::lock_guard lock(pool.mutex_);
      scratch_ = pool.free_.back();
      pool.free_.pop_back();
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(scratch_);
    }
    TunedScratch& operator*() const { return *scratch_; }

   private:
    ScratchPool& pool_;
    TunedScratch* scratch_;
  };

 private:
  std::mutex mutex_;
  std::deque<Products> own_;
  std::deque<TunedScratch> all_;
  std::vector<TunedScratch*> free_;
};

// How many experts run at once, and the threads of each: products of one expert are small.
struct Division {
  Division(const Products& products, size_t count) : jobs(products.jobs()) {
    if (!products.on_host()) return;  // a device does one thing at a time
    experts = ExpertsAtOnce(jobs, count);
    jobs = (ThreadsOf(jobs) + experts - 1) / experts;
  }
  size_t experts = 1, jobs;
};

// Bits do not depend on the division: an expert's are the same with any number of threads, and a
// token adds up its experts in the order of their places.
class HostTunedNode : public TunedNode {
 public:
  HostTunedNode(Products& products, NodeLayer& node, std::span<const size_t> changing)
      : products_(products),
        node_(node),
        hidden_(node.experts.hidden),
        division_(products, node.experts.expert_ids.size()),
        scratch_(products, division_.experts, division_.jobs) {
    for (size_t place = 0; place < node.experts.expert_ids.size(); ++place)
      experts_.emplace_back(
          node, place, std::binary_search(changing.begin(), changing.end(), place), division_.jobs);
  }

  Result<std::vector<float>> Logits(std::span<const uint32_t> tokens) override {
    router_inputs_.resize(tokens.size() * node_.experts.router_width);
    SHARD_CHECK(node_.router_inputs->Gather(tokens, router_inputs_, products_.jobs()));
    std::vector<float> logits(tokens.size() * experts_.size());
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node_.experts, products_.executor()));
    SHARD_CHECK(products_.Project(matrices.router, router_inputs_, logits));
    return logits;
  }

  Result<std::vector<double>> RouterGradient(std::span<const float> by_logit) override {
    const size_t width = node_.experts.router_width;
    std::vector<double> by_row(node_.experts.router.size(), 0);
    SHARD_CHECK(products_.AddProduct({by_logit, experts_.size()}, {router_inputs_, width},
                                     {by_row.data(), width}));
    return by_row;
  }

  // Leaves the sum of the experts' outputs minus the targets.
  Status Run(std::span<const uint32_t> tokens, const Routes& routes) override {
    inputs_.resize(tokens.size() * hidden_);
    targets_.resize(inputs_.size());
    residuals_.resize(inputs_.size());
    SHARD_CHECK(node_.inputs->Gather(tokens, inputs_, products_.jobs()));
    SHARD_CHECK(node_.targets->Gather(tokens, targets_, products_.jobs()));
    gates_ = routes.gates;
    chosen_ = ChoicesOf(routes, experts_.size());
    SHARD_CHECK(ForExperts([&](size_t place, TunedScratch& scratch) -> Status {
      FillInputs(place);
      return experts_[place].Run(scratch);
    }));
    ForPieces(tokens.size(), RowsWorthAThread(hidden_), products_.jobs(),
              [&](size_t begin, size_t end) { AddOutputs(begin, end); });
    return Ok();
  }

  Result<std::vector<TokenSquares>> Measure() override {
    std::vector<TokenSquares> tokens(targets_.size() / hidden_);
    ForPieces(tokens.size(), RowsWorthAThread(hidden_), products_.jobs(),
              [&](size_t begin, size_t end) {
                for (size_t row = begin; row < end; ++row) {
                  for (size_t i = row * hidden_; i < (row + 1) * hidden_; ++i) {
                    tokens[row].missed += double{residuals_[i]} * residuals_[i];
                    tokens[row].target += double{targets_[i]} * targets_[i];
                  }
                }
              });
    return tokens;
  }

  Result<std::vector<double>> Move(std::span<const float> factors, double rate) override {
    std::vector<double> by_gate(gates_.size());
    SHARD_CHECK(ForExperts([&](size_t place, TunedScratch& scratch) -> Status {
      const ExpertChoices& own = chosen_[place];
      FillGradient(place, factors);
      std::vector<float> gates;
      for (const size_t choice : own.choices)
        gates.push_back(node_.form.weigh_inputs ? 1 : gates_[choice]);
      SHARD_TRY(const std::vector<double> by_factor, experts_[place].Back(gates, rate, scratch));
      for (size_t i = 0; i < by_factor.size(); ++i) by_gate[own.choices[i]] = by_factor[i];
      return Ok();
    }));
    return by_gate;
  }

  Status Finish() override { return Ok(); }

 private:
  // Calls work(place, scratch) for the experts that tokens chose, those with most tokens first, so
  // that threads end together.
  template <class Work>
  Status ForExperts(const Work& work) {
    std::vector<size_t> places;
    for (size_t place = 0; place < experts_.size(); ++place) {
      if (!chosen_[place].rows.empty()) places.push_back(place);
    }
    std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
      return chosen_[a].rows.size() > chosen_[b].rows.size();
    });
    return ParallelFor(places.size(), division_.experts, [&](size_t i) -> Status {
      SHARD_CHECK(CheckInterrupt());
      const ScratchPool::Lease scratch(scratch_);
      return work(places[i], *scratch);
    });
  }

  void FillInputs(size_t place) {
    const ExpertChoices& own = chosen_[place];
    const std::span<float> inputs = experts_[place].Inputs(own.rows.size());
    for (size_t i = 0; i < own.rows.size(); ++i) {
      const float gate = node_.form.weigh_inputs ? gates_[own.choices[i]] : 1;
      for (size_t k = 0; k < hidden_; ++k)
        inputs[i * hidden_ + k] = inputs_[own.rows[i] * hidden_ + k] * gate;
    }
  }

  void FillGradient(size_t place, std::span<const float> factors) {
    const std::vector<uint32_t>& rows = chosen_[place].rows;
    const std::span<float> by_sum = experts_[place].outputs();
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t k = 0; k < hidden_; ++k)
        by_sum[i * hidden_ + k] = residuals_[rows[i] * hidden_ + k] * factors[rows[i]];
    }
  }

  // Sets the residuals of these rows of the batch.
  void AddOutputs(size_t begin, size_t end) {
    for (size_t i = begin * hidden_; i < end * hidden_; ++i) residuals_[i] = -targets_[i];
    for (size_t place = 0; place < experts_.size(); ++place) {
      const ExpertChoices& own = chosen_[place];
      const std::span<const float> outputs = experts_[place].outputs();
      const auto first = std::lower_bound(own.rows.begin(), own.rows.end(), begin);
      for (auto row = first; row != own.rows.end() && *row < end; ++row) {
        const auto i = static_cast<size_t>(row - own.rows.begin());
        const float factor = node_.form.weigh_inputs ? 1 : gates_[own.choices[i]];
        for (size_t k = 0; k < hidden_; ++k)
          residuals_[*row * hidden_ + k] += factor * outputs[i * hidden_ + k];
      }
    }
  }

  Products& products_;
  NodeLayer& node_;
  const size_t hidden_;
  const Division division_;
  ScratchPool scratch_;
  std::vector<TunedExpert> experts_;
  std::vector<float> router_inputs_;  // of the last Logits
  // Of the last Run.
  std::vector<float> inputs_, targets_, residuals_, gates_;
  std::vector<ExpertChoices> chosen_;  // by place
};

}  // namespace

std::vector<ExpertChoices> ChoicesOf(const Routes& routes, size_t experts) {
  std::vector<ExpertChoices> chosen(experts);
  for (size_t choice = 0; choice < routes.places.size(); ++choice) {
    ExpertChoices& expert = chosen[routes.places[choice]];
    expert.rows.push_back(static_cast<uint32_t>(choice / routes.top_k));
    expert.choices.push_back(choice);
  }
  return chosen;
}

size_t ExpertsAtOnce(size_t jobs, size_t experts) {
  return std::max<size_t>(1, std::min(ThreadsOf(jobs), experts));
}

std::unique_ptr<TunedNode> TuneOnHost(Products& products, NodeLayer& node,
                                      std::span<const size_t> changing) {
  return std::make_unique<HostTunedNode>(products, node, changing);
}

}  // namespace moepack::runtime
