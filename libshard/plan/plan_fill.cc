// Gives all groups and layers the same number of experts, because stock llama.cpp reads a single
// expert_count. Overlays do not matter: a group must keep its bytes when the overlay changes.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

// The experts that a group has in a layer. A partition by scores has already filled in what its
// groups share.
ExpertIds HeldIn(const GroupPlan& group, uint32_t layer) {
  return Union(IdsOf(group.owned, layer), IdsOf(group.fill, layer));
}

size_t LargestCount(const Plan& plan) {
  size_t largest = 0;
  for (const GroupPlan& group : plan.groups) {
    for (const auto& [layer, expert_count] : plan.layers)
      largest = std::max(largest, HeldIn(group, layer).size());
  }
  return largest;
}

// Experts that are on no node cannot be fill: a user who left them out of every group does not want
// them shipped.
Status CheckReachable(const Plan& plan, size_t target, const char* hint) {
  for (const auto& [layer, expert_count] : plan.layers) {
    const size_t available = expert_count - IdsOf(plan.remainder, layer).size();
    if (available >= target) continue;
    return Error{
        Code::kInvalidArgument,
        Cat("plan: layer ", layer, ": experts to fill every group up to one count: expected ",
            target, ", found ", available),
        hint};
  }
  return Ok();
}

// Without statistics no expert is known to be better than another. The fill takes the ids after the
// group's own last id, cyclically, which for contiguous runs are the neighbours of the run.
ExpertIds NextExperts(const Plan& plan, const GroupPlan& group, uint32_t layer, size_t target) {
  const uint32_t expert_count = plan.layers.at(layer);
  const ExpertIds& owned = IdsOf(group.owned, layer);
  const ExpertIds held = HeldIn(group, layer);
  const ExpertIds taken = Union(held, IdsOf(plan.remainder, layer));
  const uint32_t start = owned.empty() ? 0 : owned.back() + 1;
  ExpertIds fill;
  for (uint32_t step = 0; step < expert_count && held.size() + fill.size() < target; ++step) {
    const uint32_t id = (start + step) % expert_count;
    if (!Contains(taken, id)) fill.push_back(id);
  }
  std::sort(fill.begin(), fill.end());
  return fill;
}

}  // namespace

Status FillUniformly(Plan& plan, size_t least) {
  const size_t largest = LargestCount(plan);
  // The largest count wins, since no group may lose an expert that it owns.
  const size_t target = std::max(largest, least);
  SHARD_CHECK(CheckReachable(plan, target,
                             least > largest ? "lower --eligible"
                             : least > 0     ? "use groups that are closer in size"
                                             : "use --no-uniform, or groups that are closer in "
                                               "size"));
  for (GroupPlan& group : plan.groups) {
    for (const auto& [layer, expert_count] : plan.layers) {
      ExpertIds fill = NextExperts(plan, group, layer, target);
      if (!fill.empty()) group.fill[layer] = Union(IdsOf(group.fill, layer), fill);
    }
  }
  return Ok();
}

std::vector<const OverlayPlan*> OverlaysOf(const Plan& plan) {
  std::vector<const OverlayPlan*> overlays;
  for (const OverlayPlan& overlay : plan.overlays) overlays.push_back(&overlay);
  if (overlays.empty()) overlays.push_back(nullptr);
  return overlays;
}

bool IsUniform(const Plan& plan) {
  for (const OverlayPlan* overlay : OverlaysOf(plan)) {
    const size_t first = Eligible(plan, overlay, 0, plan.layers.begin()->first).size();
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      for (const auto& [layer, expert_count] : plan.layers) {
        if (Eligible(plan, overlay, group, layer).size() != first) return false;
      }
    }
  }
  return true;
}

}  // namespace moepack
