// The fill of an overlay: which experts of other groups a node needs in addition, so that all
// routers have equally many.
#include <algorithm>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"

namespace moepack {
namespace {

// The number of experts of the largest group and layer.
size_t LargestEligible(const Plan& plan, const OverlayPlan& overlay) {
  size_t largest = 0;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers)
      largest = std::max(largest, Eligible(plan, &overlay, group, layer).size());
  }
  return largest;
}

// Without scores no expert is known to be better than another, so this takes the ids after the
// overlay's.
std::vector<uint32_t> IdsAfter(const ExpertIds& overlay, uint32_t expert_count) {
  std::vector<uint32_t> order(expert_count);
  std::iota(order.begin(), order.end(), 0u);
  const uint32_t start = overlay.empty() ? 0 : (overlay.back() + 1) % expert_count;
  std::rotate(order.begin(), order.begin() + start, order.end());
  return order;
}

// The groups of one layer while their experts are chosen.
class LayerFill {
 public:
  LayerFill(const Plan& plan, const OverlayPlan& overlay, uint32_t layer, size_t target)
      : expert_count_(plan.layers.at(layer)) {
    const ExpertIds barred =
        Difference(IdsOf(plan.remainder, layer), IdsOf(overlay.experts_by_layer, layer));
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      const ExpertIds eligible = Eligible(plan, &overlay, group, layer);
      std::vector<bool> lacks(expert_count_, true);
      for (const ExpertIds* ids : {&eligible, &barred}) {
        for (const uint32_t id : *ids) lacks[id] = false;
      }
      groups_.push_back({std::move(lacks), target - eligible.size(), {}});
    }
  }

  // Gives the expert that serves the groups with the largest needs to all groups that lack it,
  // until none needs more. Equal groups that share few experts thus get hardly more different
  // experts than one of them needs. False if a group needs more than there are.
  bool Choose(const std::vector<uint32_t>& order) {
    while (true) {
      size_t best_use = 0;
      uint32_t best = 0;
      for (const uint32_t id : order) {
        const size_t use = UseOf(id);
        // Of equal experts, the first in `order` wins.
        if (use <= best_use) continue;
        best_use = use;
        best = id;
      }
      if (best_use == 0) break;
      Give(best);
    }
    return std::all_of(groups_.begin(), groups_.end(),
                       [](const Group& group) { return group.needs == 0; });
  }

  // Ascending.
  ExpertIds FillOfGroup(size_t group) const {
    ExpertIds fill = groups_[group].fill;
    std::sort(fill.begin(), fill.end());
    return fill;
  }

 private:
  struct Group {
    std::vector<bool> lacks;  // by id: the experts it may still get
    size_t needs = 0;
    ExpertIds fill;
  };

  size_t UseOf(uint32_t id) const {
    size_t use = 0;
    // A group counts by how many it still needs, so groups that lag behind decide.
    for (const Group& group : groups_) use += group.lacks[id] ? group.needs : 0;
    return use;
  }

  void Give(uint32_t id) {
    for (Group& group : groups_) {
      if (group.needs == 0 || !group.lacks[id]) continue;
      group.fill.push_back(id);
      group.lacks[id] = false;
      --group.needs;
    }
  }

  uint32_t expert_count_;
  std::vector<Group> groups_;
};

Error TooFew(const Plan& plan, const OverlayPlan& overlay, uint32_t layer, size_t target) {
  const ExpertIds barred =
      Difference(IdsOf(plan.remainder, layer), IdsOf(overlay.experts_by_layer, layer));
  return {Code::kInvalidArgument,
          Cat("overlay ", Quoted(overlay.version), ": layer ", layer,
              ": experts to fill every group up to one count: expected ", target, ", found ",
              plan.layers.at(layer) - barred.size()),
          "use an overlay with about as many experts in every layer, or groups without fill "
          "(--no-uniform)"};
}

}  // namespace

Status FillOverlay(const Plan& plan, const ExpertOrder& order, OverlayPlan& overlay) {
  overlay.fill.clear();
  if (!plan.uniform) return Ok();
  const size_t target = LargestEligible(plan, overlay);
  std::vector<LayerExperts> fill(plan.groups.size());
  bool any = false;
  for (const auto& [layer, expert_count] : plan.layers) {
    const auto wanted = order.find(layer);
    LayerFill layer_fill(plan, overlay, layer, target);
    const bool enough = layer_fill.Choose(
        wanted == order.end() ? IdsAfter(IdsOf(overlay.experts_by_layer, layer), expert_count)
                              : wanted->second);
    if (!enough) return TooFew(plan, overlay, layer, target);
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      ExpertIds ids = layer_fill.FillOfGroup(group);
      any = any || !ids.empty();
      if (!ids.empty()) fill[group][layer] = std::move(ids);
    }
  }
  if (any) overlay.fill = std::move(fill);
  return Ok();
}

}  // namespace moepack
