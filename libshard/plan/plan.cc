#include "libshard/plan/plan.h"

#include <algorithm>

#include "libshard/base/text.h"
#include "libshard/plan/overlay_plan.h"
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
  LayerExperts held = overlay.experts;
  for (const LayerExperts& fill : overlay.fill) {
    for (const auto& [layer, ids] : fill) held[layer] = Union(held[layer], ids);
  }
  return held;
}

void KeepLayers(const LayerCounts& layers, OverlayPlan& overlay) {
  const auto absent = [&](const auto& entry) { return !layers.contains(entry.first); };
  std::erase_if(overlay.experts, absent);
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
  return Union(Union(ids, IdsOf(overlay->experts, layer)), IdsOf(FillOf(*overlay, group), layer));
}

ExpertIds Eligible(const Plan& plan, size_t group, uint32_t layer) {
  return Eligible(plan, plan.current_overlay(), group, layer);
}

Result<Plan> MakePlan(const MoeModel& model, const PlanOptions& options) {
  SHARD_CHECK(CheckTopKKnown(model));
  Plan plan;
  plan.layers = LayerCountsOf(model);
  plan.top_k = TopKOf(model);
  SHARD_CHECK(PartitionExperts(options, plan));
  if (options.uniform) SHARD_CHECK(FillUniformly(plan));
  // It is no more than was asked for, so that groups and their version do not depend on an overlay.
  plan.uniform = options.uniform;
  if (!options.overlay_file.empty()) {
    SHARD_TRY(OverlayPlan overlay, ReadOverlayFile(options.overlay_file, plan.layers));
    SHARD_CHECK(FillOverlay(plan, {}, overlay));
    plan.overlays.push_back(std::move(overlay));
  }
  SHARD_CHECK(CheckEnoughEligible(plan));
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
