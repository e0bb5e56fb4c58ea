#include "runtime-shim/refit/layer_refit.h"

#include <cmath>
#include <optional>
#include <utility>

#include "runtime-shim/refit/ridge.h"
#include "runtime-shim/refit/router_fit.h"
#include "runtime-shim/refit/row_store.h"
#include "runtime-shim/refit/tune.h"

namespace moepack::runtime {
namespace {

using Array = std::vector<float> RefittedExperts::*;

// The arrays that a step other than a ridge regression changes.
std::vector<Array> ArraysOf(const std::string& step) {
  using E = RefittedExperts;
  if (step == kRefillStep) return {&E::down, &E::gate, &E::up, &E::gate_bias, &E::up_bias};
  if (step == kRouterStep) return {&E::router, &E::router_bias, &E::selection_bias};
  std::vector<Array> all;
  for (const RefittedArray& array : RefittedArrays()) all.push_back(array.values);
  return all;
}

// Arrays as they are now, in memory or in a scratch file.
class ArraysBefore {
 public:
  static Result<ArraysBefore> Of(const RefittedExperts& experts, std::vector<Array> arrays,
                                 const RefitOptions& options) {
    uint64_t values = 0, first = 0;
    for (const Array array : arrays) values += (experts.*array).size();
    SHARD_TRY(RowRoom room, RowRoom::Of(options.before_memory(), options.scratch));
    SHARD_TRY(RowStore rows, RowStore::Make(values, /*width=*/1, room));
    for (const Array array : arrays) {
      SHARD_CHECK(rows.Write(first, experts.*array));
      first += (experts.*array).size();
    }
    return ArraysBefore(std::move(arrays), std::move(rows));
  }

  // REQUIRES: the arrays have the sizes that they had.
  Status PutBack(RefittedExperts& experts) const {
    uint64_t first = 0;
    for (const Array array : arrays_) {
      SHARD_CHECK(rows_.Read(first, experts.*array));
      first += (experts.*array).size();
    }
    return Ok();
  }

 private:
  ArraysBefore(std::vector<Array> arrays, RowStore rows)
      : arrays_(std::move(arrays)), rows_(std::move(rows)) {}

  std::vector<Array> arrays_;
  RowStore rows_;
};

class LayerRefitter {
 public:
  LayerRefitter(Products& products, const RefitOptions& options, const NeuronSource& source,
                NodeLayer& node)
      : products_(products), options_(options), source_(source), node_(node) {}

  Result<LayerOutcome> Run() {
    LayerOutcome done;
    SHARD_CHECK(RouteNode(products_, node_));
    SHARD_CHECK(RunNode(products_, node_));
    SHARD_TRY(double best, FoldError(node_));
    done.outcome.layer = node_.experts.layer;
    done.outcome.group = node_.experts.group;
    done.outcome.error_before = best;
    done.outcome.error_after = best;
    CountTokens(done.outcome);
    // A few tokens fit anything, and say little about what they fit.
    if (ChangingExperts(node_, TokensOfExperts(node_, true)).empty()) return done;
    std::vector<float> down;  // before the last step that was kept, if that is a ridge regression
    for (const std::string& step : options_.steps) {
      const bool ridge = step == kRidgeStep;
      std::vector<float> down_before;      // that a ridge regression is pulled to
      std::optional<ArraysBefore> before;  // what another step changes
      if (ridge) {
        down_before = node_.experts.down;
      } else {
        SHARD_TRY(before, ArraysBefore::Of(node_.experts, ArraysOf(step), options_));
      }
      const Routes routes = node_.routes;
      SHARD_TRY(const uint64_t moved, Take(step, down_before));
      SHARD_TRY(const double error, FoldError(node_));
      // The error is measured on text that no step has seen, so a step that only fits its own text
      // is dropped.
      const bool better = std::isfinite(error) && error < best;
      done.steps.push_back({step, error, better});
      if (better) {
        best = error;
        done.outcome.neurons_moved += moved;
        down = std::move(down_before);
        continue;
      }
      if (ridge) {
        node_.experts.down = std::move(down_before);
      } else {
        SHARD_CHECK(before->PutBack(node_.experts));
      }
      node_.routes = routes;
      // The next step starts from the outputs of what was put back.
      SHARD_CHECK(ridge ? RunDown(products_, node_) : RunNode(products_, node_));
    }
    if (!down.empty()) SHARD_CHECK(RidgeOnAll(down));
    // Steps that changed the outputs by differences left sums that were rounded in another order.
    SHARD_CHECK(RunDown(products_, node_));
    done.without_room = products_.TakeRefusal();
    done.outcome.error_after = best;
    done.outcome.accepted = best < done.outcome.error_before;
    return done;
  }

 private:
  void CountTokens(RefitOutcome& outcome) const {
    const std::vector<ExpertTokens> tokens = TokensOfExperts(node_, true);
    for (size_t place = 0; place < tokens.size(); ++place) {
      if (!node_.fixed[place]) outcome.slot_tokens.push_back(tokens[place].tokens.size());
    }
  }

  // Repeats a ridge regression that helped, pulled to the down projections before it and on all
  // text: the held-out part has served its purpose, and more tokens make a better fit.
  Status RidgeOnAll(std::span<const float> before) {
    const std::vector<float> fit = node_.fit_weights;
    for (size_t token = 0; token < fit.size(); ++token)
      node_.fit_weights[token] += node_.fold_weights[token];
    const Status done = RidgeFrom(products_, options_, before, 1, node_);
    node_.fit_weights = fit;
    return done;
  }

  // Leaves routes and outputs of the new experts. Returns how many neurons moved.
  Result<uint64_t> Take(const std::string& step, std::span<const float> down) {
    if (step == kRefillStep) return RefillExperts(products_, options_, source_, node_);
    if (step == kRidgeStep) {
      SHARD_CHECK(RidgeFrom(products_, options_, down, options_.sweeps, node_));
      if (!RidgeTakesTurns(options_, node_)) SHARD_CHECK(RunDown(products_, node_));
      return uint64_t{0};
    }
    RouterOptions router;
    router.memory = options_.matrix_memory();
    if (step == kTuneStep) {
      TuneOptions tune;
      tune.updates = options_.updates;
      SHARD_CHECK(TuneExperts(products_, tune, node_));
      SHARD_CHECK(FitSelectionBias(products_, router, node_));
    } else {
      SHARD_CHECK(FitRouter(products_, router, node_));
    }
    SHARD_CHECK(RouteNode(products_, node_));
    SHARD_CHECK(RunNode(products_, node_));
    return uint64_t{0};
  }

  Products& products_;
  const RefitOptions& options_;
  const NeuronSource& source_;
  NodeLayer& node_;
};

}  // namespace

Result<LayerOutcome> RefitNodeLayer(Products& products, const RefitOptions& options,
                                    const NeuronSource& source, NodeLayer& node) {
  return LayerRefitter(products, options, source, node).Run();
}

}  // namespace moepack::runtime
