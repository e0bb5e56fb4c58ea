#include "libshard/fit/fit_nodes.h"

#include <algorithm>
#include <map>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

struct CountLimits {
  uint32_t top_k = 0;  // the largest of all layers
  uint32_t most = 0;   // the experts of the smallest layer
};

CountLimits LimitsOf(const MoeModel& model, const NodeSizer& sizer) {
  Plan all;
  all.layers = LayerCountsOf(model);
  all.top_k = TopKOf(model);
  const Plan there = sizer.PlanOf(all);  // without blocks that the conversion leaves out
  CountLimits limits;
  for (const auto& [layer, top_k] : there.top_k) limits.top_k = std::max(limits.top_k, top_k);
  limits.most = there.layers.begin()->second;
  for (const auto& [layer, count] : there.layers) limits.most = std::min(limits.most, count);
  return limits;
}

// Lays out each count only once, whatever the number of machines.
class NeedTable {
 public:
  NeedTable(const NodeSizer& sizer, const NodeExtras& extras) : sizer_(sizer), extras_(extras) {}

  Result<NodeNeed> Of(uint32_t eligible) {
    const auto known = needs_.find(eligible);
    if (known != needs_.end()) return known->second;
    NodeNeed need{.eligible = eligible, .weights = {}, .extras = extras_};
    SHARD_TRY(need.weights, sizer_.NodeOf(eligible));
    needs_[eligible] = need;
    return need;
  }

  // REQUIRES: `least` experts fit.
  Result<NodeNeed> Largest(uint64_t budget, uint32_t least, uint32_t most) {
    uint32_t fits = least, over = most + 1;
    // By bisection, as more experts never take fewer bytes.
    while (over - fits > 1) {
      const uint32_t middle = fits + (over - fits) / 2;
      SHARD_TRY(const NodeNeed need, Of(middle));
      (need.total() <= budget ? fits : over) = middle;
    }
    return Of(fits);
  }

 private:
  const NodeSizer& sizer_;
  NodeExtras extras_;
  std::map<uint32_t, NodeNeed> needs_;
};

Error DoesNotFit(size_t node, const NodeFit& fit, const std::string& why) {
  return {Code::kInvalidArgument, TooMuch(node, fit, why),
          "a smaller recipe, cache type or --context needs less; --stages divides the layers "
          "between machines"};
}

}  // namespace

std::string TooMuch(size_t node, const NodeFit& fit, const std::string& why) {
  const NodeNeed& need = fit.need;
  return Cat("node ", node, " (", FormatBytes(fit.budget), "): trunk ",
             FormatBytes(need.weights.head + need.weights.trunk), " + cache ",
             FormatBytes(need.extras.cache), " + buffers ", FormatBytes(need.extras.buffers), " + ",
             Plural(need.eligible, "expert"), " per layer", why, " ",
             FormatBytes(need.weights.experts), " = ", FormatBytes(need.total()), ": ",
             FormatBytes(need.total() - std::min(need.total(), fit.budget)), " too much");
}

Result<std::vector<NodeFit>> FitNodes(const MoeModel& model, const NodeSizer& sizer,
                                      const std::vector<uint64_t>& budgets,
                                      const NodeExtras& extras, uint32_t least) {
  const CountLimits limits = LimitsOf(model, sizer);
  const uint32_t needed = std::max({limits.top_k, least, 1u});
  if (needed > limits.most) {
    return Error{Code::kInvalidArgument, Cat("nodes: expected at least ", Plural(needed, "expert"),
                                             " in every layer, found a layer of ", limits.most)};
  }
  const std::string why = needed == limits.top_k ? " (top-k)" : " (on every node)";
  NeedTable table(sizer, extras);
  std::vector<NodeFit> fits;
  for (const uint64_t budget : budgets) {
    NodeFit fit{.budget = budget, .need = {}};
    SHARD_TRY(fit.need, table.Of(needed));
    if (fit.need.total() > budget) return DoesNotFit(fits.size(), fit, why);
    SHARD_TRY(fit.need, table.Largest(budget, needed, limits.most));
    fits.push_back(fit);
  }
  return fits;
}

Result<std::vector<NodeFit>> MeasureNodes(const NodeSizer& sizer, const Plan& plan,
                                          const std::vector<uint64_t>& budgets,
                                          const NodeExtras& extras) {
  const Plan there = sizer.PlanOf(plan);
  // Any layer shows the count of all, because Node refuses plans in which they differ.
  const uint32_t layer = there.layers.begin()->first;
  std::vector<NodeFit> fits;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    NodeFit fit{.budget = budgets.empty() ? 0 : budgets[group], .need = {}};
    fit.need.extras = extras;
    fit.need.eligible = static_cast<uint32_t>(Eligible(there, group, layer).size());
    SHARD_TRY(fit.need.weights, sizer.Node(plan, group));
    if (!budgets.empty() && fit.need.total() > fit.budget) return DoesNotFit(group, fit, "");
    fits.push_back(fit);
  }
  return fits;
}

}  // namespace moepack
