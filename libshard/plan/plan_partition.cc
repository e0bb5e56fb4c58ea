// Who owns which expert: the partitions that need no statistics.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "libshard/base/text.h"
#include "libshard/plan/plan_steps.h"

namespace shard {
namespace {

constexpr std::string_view kExplicitPrefix = "explicit:";

// The first id of run `group` when `experts` ids are cut into runs whose lengths differ by at most
// one, the longer ones first: 16 in 3 gives 0, 6, 11. With group == groups it is `experts`.
uint32_t RunStart(uint32_t experts, uint32_t groups, uint32_t group) {
  return group * (experts / groups) + std::min(group, experts % groups);
}

ExpertIds ContiguousRun(uint32_t experts, uint32_t groups, uint32_t group) {
  ExpertIds ids;
  const uint32_t end = RunStart(experts, groups, group + 1);
  for (uint32_t id = RunStart(experts, groups, group); id < end; ++id) ids.push_back(id);
  return ids;
}

ExpertIds EveryNth(uint32_t experts, uint32_t groups, uint32_t group) {
  ExpertIds ids;
  for (uint32_t id = group; id < experts; id += groups) ids.push_back(id);
  return ids;
}

using Rule = ExpertIds (*)(uint32_t experts, uint32_t groups, uint32_t group);

// The partitions that a formula gives.
Rule FindRule(std::string_view name) {
  if (name == "contiguous") return ContiguousRun;
  if (name == "modulo") return EveryNth;
  return nullptr;
}

void ApplyRule(Rule rule, uint32_t groups, Plan& plan) {
  plan.groups.resize(groups);
  for (uint32_t group = 0; group < groups; ++group) {
    for (const auto& [layer, experts] : plan.layers)
      plan.groups[group].owned[layer] = rule(experts, groups, group);
  }
}

// A layer that no group mentions was forgotten; to drop all its experts is never meant.
Status CheckEveryLayerOwned(const std::string& path, const Plan& plan) {
  for (const auto& [layer, experts] : plan.layers) {
    const bool owned = std::any_of(
        plan.groups.begin(), plan.groups.end(),
        [layer = layer](const GroupPlan& group) { return !IdsOf(group.owned, layer).empty(); });
    if (owned) continue;
    return Error{Code::kCorrupt,
                 Cat(path, ": layer ", layer, ": expected experts in some group, found none")};
  }
  return Ok();
}

// {"groups": [{"*": "0-5", "7": "1,3"}, ...], "scheme": "what made it"}; scheme is optional.
Status ApplyExplicit(const std::string& path, const Json& document, Plan& plan) {
  SHARD_CHECK(CheckMembers(path, document, {"groups", "scheme"}));
  const JsonFields fields(document, path);
  SHARD_TRY(plan.scheme, fields.StringOr("scheme", "explicit"));
  if (!IsLabel(plan.scheme)) return fields.Wrong("scheme", "1 to 64 of [A-Za-z0-9._-]");
  SHARD_TRY(const Json* groups, fields.Array("groups"));
  SHARD_CHECK(CheckGroupCount(path, plan, groups->size()));
  for (const Json& experts : *groups) {
    const std::string where = Cat(path, ": group ", plan.groups.size());
    plan.groups.emplace_back();
    SHARD_TRY(plan.groups.back().owned, LayerExpertsFromJson(where, experts, plan.layers));
  }
  SHARD_CHECK(CheckOneOwner(path, plan));
  return CheckEveryLayerOwned(path, plan);
}

Status ReadExplicit(const std::string& path, uint32_t groups, Plan& plan) {
  SHARD_TRY(const Json document, ReadJsonFile(path));
  SHARD_CHECK(AsUserMistake(ApplyExplicit(path, document, plan)));
  if (groups == 0 || groups == plan.groups.size()) return Ok();
  return Error{Code::kInvalidArgument, Cat(path, ": groups: expected ", groups,
                                           " as --groups says, found ", plan.groups.size())};
}

}  // namespace

Status PartitionExperts(const PlanOptions& options, Plan& plan) {
  plan.scheme = options.partition;
  if (const Rule rule = FindRule(options.partition)) {
    SHARD_CHECK(AsUserMistake(CheckGroupCount("plan", plan, options.groups)));
    ApplyRule(rule, options.groups, plan);
    return Ok();
  }
  if (options.partition.starts_with(kExplicitPrefix)) {
    const std::string path = options.partition.substr(kExplicitPrefix.size());
    SHARD_CHECK(ReadExplicit(path, options.groups, plan));
    plan.remainder = Unowned(plan);
    return Ok();
  }
  return Error{Code::kInvalidArgument,
               Cat("plan: partition: expected contiguous, modulo or explicit:FILE, found ",
                   Quoted(options.partition))};
}

}  // namespace shard
