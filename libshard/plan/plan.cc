#include "libshard/plan/plan.h"

#include "libshard/base/text.h"
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

// A partition that does not decide from statistics gives every expert to a group, however few may
// be eligible.
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

}  // namespace

LayerExperts HeldBy(const GroupPlan& group) {
  LayerExperts held = group.owned;
  for (const auto& [layer, ids] : group.fill) held[layer] = Union(held[layer], ids);
  return held;
}

ExpertIds Eligible(const Plan& plan, size_t group, uint32_t layer) {
  const GroupPlan& own = plan.groups[group];
  return Union(Union(IdsOf(own.owned, layer), IdsOf(own.fill, layer)), IdsOf(plan.overlay, layer));
}

Result<Plan> MakePlan(const MoeModel& model, const PlanOptions& options) {
  SHARD_CHECK(CheckTopKKnown(model));
  Plan plan;
  plan.layers = LayerCountsOf(model);
  plan.top_k = TopKOf(model);
  if (!options.overlay_file.empty()) SHARD_CHECK(ReadOverlayFile(options.overlay_file, plan));
  SHARD_TRY(const PlanBasis basis, BasisOf(model, options, plan));
  SHARD_CHECK(PartitionExperts(options, basis, plan));
  if (options.uniform && options.rooms.empty())
    SHARD_CHECK(FillUniformly(plan, options.eligible.value_or(0)));
  SHARD_CHECK(CheckEnoughEligible(plan));
  SHARD_CHECK(CheckNotBeyond(plan, options.eligible));
  plan.uniform = IsUniform(plan);
  if (!options.scores) return plan;
  SHARD_TRY(plan.expectation, ExpectCapture(plan, basis));
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
