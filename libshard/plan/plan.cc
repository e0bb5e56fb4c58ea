#include "libshard/plan/plan.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"
#include "libshard/plan/placement.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

Status CheckTopKKnown(const MoeModel& model) {
  for (const MoeLayer& layer : model.layers()) {
    if (layer.top_k > 0) continue;
    return Error{Code::kInvalidArgument,
                 Cat("plan: layer ", layer.layer,
                     ": experts per token: expected a number from config.json, found none"),
                 "put config.json beside the checkpoint or name it with --config"};
  }
  return Ok();
}

Status CheckEnoughEligible(const Plan& plan) {
  Status checked = AsUserMistake(CheckEligibleCounts("plan", plan));
  if (checked) return checked;
  Error error = std::move(checked).error();
  error.hint = "use fewer groups or a larger overlay";
  return error;
}

// A partition that does not use statistics gives every expert to a group, however few may be
// eligible.
Status CheckNotBeyond(const Plan& plan, std::optional<uint32_t> eligible) {
  for (size_t group = 0; eligible && group < plan.groups.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers) {
      const size_t found = Eligible(plan, group, layer).size();
      if (found <= *eligible) continue;
      return Error{Code::kInvalidArgument,
                   Cat("plan: group ", group, ": layer ", layer,
                       ": eligible experts: expected at "
                       "most ",
                       *eligible, " as --eligible says, found ", found),
                   "use more groups, or a partition that decides from statistics"};
    }
  }
  return Ok();
}

ExpertOrder PreferenceOf(const PlanBasis& basis) {
  return basis.scores ? OrderByScore({basis.scores.get(), 1}) : ExpertOrder();
}

// How many experts --eligible leaves for a group in addition to the overlay.
size_t LeastHeld(const PlanOptions& options, const Plan& plan) {
  if (!options.eligible) return 0;
  const size_t overlay = RoomOfOverlay(options, plan, plan.layers.begin()->first);
  return *options.eligible - std::min<size_t>(overlay, *options.eligible);
}

}  // namespace

LayerExperts HeldBy(const GroupPlan& group) {
  LayerExperts held = group.owned;
  for (const auto& [layer, ids] : group.fill) held[layer] = Union(held[layer], ids);
  return held;
}

const LayerExperts& FillOf(const OverlayPlan& overlay, size_t group) {
  static const LayerExperts none;
  return group < overlay.fill.size() ? overlay.fill[group] : none;
}

LayerExperts HeldBy(const OverlayPlan& overlay) {
  LayerExperts held = overlay.experts_by_layer;
  for (const LayerExperts& fill : overlay.fill) {
    for (const auto& [layer, ids] : fill) held[layer] = Union(held[layer], ids);
  }
  return held;
}

void KeepLayers(const LayerCounts& layers, OverlayPlan& overlay) {
  const auto absent = [&](const auto& entry) { return !layers.contains(entry.first); };
  std::erase_if(overlay.experts_by_layer, absent);
  bool any = false;
  for (LayerExperts& fill : overlay.fill) {
    std::erase_if(fill, absent);
    any = any || CountIds(fill) > 0;
  }
  if (!any) overlay.fill.clear();
}

const OverlayPlan* Plan::current_overlay() const {
  return overlays.empty() ? nullptr : &overlays.back();
}

const OverlayPlan* Plan::FindOverlay(std::string_view version) const {
  const auto found = std::find_if(overlays.begin(), overlays.end(),
                                  [&](const OverlayPlan& one) { return one.version == version; });
  return found == overlays.end() ? nullptr : &*found;
}

ExpertIds Eligible(const Plan& plan, const OverlayPlan* overlay, size_t group, uint32_t layer) {
  const GroupPlan& own = plan.groups[group];
  ExpertIds ids = Union(IdsOf(own.owned, layer), IdsOf(own.fill, layer));
  if (overlay == nullptr) return ids;
  return Union(Union(ids, IdsOf(overlay->experts_by_layer, layer)),
               IdsOf(FillOf(*overlay, group), layer));
}

ExpertIds Eligible(const Plan& plan, size_t group, uint32_t layer) {
  return Eligible(plan, plan.current_overlay(), group, layer);
}

Result<Plan> MakePlan(const MoeModel& model, const PlanOptions& options) {
  SHARD_CHECK(CheckTopKKnown(model));
  Plan plan;
  plan.layers = LayerCountsOf(model);
  plan.top_k = TopKOf(model);
  if (!options.overlay_file.empty()) {
    SHARD_TRY(OverlayPlan overlay, ReadOverlayFile(options.overlay_file, plan.layers));
    plan.overlays.push_back(std::move(overlay));
  }
  SHARD_TRY(const PlanBasis basis, BasisOf(model, options, plan));
  SHARD_CHECK(PartitionExperts(options, basis, plan));
  // Not more than was asked for, so that the groups' version does not depend on the overlay.
  plan.uniform = options.uniform && options.rooms.empty();
  // Groups are filled before the overlay: their bundles must not change when an overlay is
  // replaced.
  if (plan.uniform) SHARD_CHECK(FillUniformly(plan, LeastHeld(options, plan)));
  if (!plan.overlays.empty())
    SHARD_CHECK(FillOverlay(plan, PreferenceOf(basis), plan.overlays.front()));
  SHARD_CHECK(CheckEnoughEligible(plan));
  SHARD_CHECK(CheckNotBeyond(plan, options.eligible));
  if (!options.scores) return plan;
  SHARD_TRY(plan.expectation, ExpectCapture(plan, basis));
  plan.placement = PlacementFor(plan, *basis.scores);
  return plan;
}

LayerCounts LayerCountsOf(const MoeModel& model) {
  LayerCounts counts;
  for (const MoeLayer& layer : model.layers()) counts[layer.layer] = layer.expert_count;
  return counts;
}

std::map<uint32_t, uint32_t> TopKOf(const MoeModel& model) {
  std::map<uint32_t, uint32_t> top_k;
  for (const MoeLayer& layer : model.layers()) top_k[layer.layer] = layer.top_k;
  return top_k;
}

}  // namespace moepack
