#include "libshard/plan/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"
#include "libshard/plan/placement.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

Result<double> ReadDamage(const JsonFields& fields, const char* key) {
  SHARD_TRY(const double damage, fields.Number(key));
  if (damage < 0) return fields.Wrong(key, "at least 0");
  return damage;
}

}  // namespace

Json TypePlanToJson(const TypePlan& types) {
  return {{"budget", types.budget},
          {"bytes", types.bytes},
          {"damage", types.damage},
          {"damage_bound", types.bound},
          {"tensor_types", types.tensor_types}};
}

Result<TypePlan> TypePlanFromJson(const std::string& where, const Json& value) {
  const JsonFields fields(value, where);
  TypePlan types;
  SHARD_TRY(types.budget, fields.Unsigned("budget"));
  SHARD_TRY(types.bytes, fields.Unsigned("bytes"));
  SHARD_TRY(types.damage, ReadDamage(fields, "damage"));
  SHARD_TRY(types.bound, ReadDamage(fields, "damage_bound"));
  if (types.bytes > types.budget) return fields.Wrong("bytes", "at most the budget");
  if (types.bound > types.damage) return fields.Wrong("damage_bound", "at most the damage");
  SHARD_TRY(const Json* rules, fields.Array("tensor_types"));
  if (rules->size() > kMaxTypeRules)
    return Error{Code::kCorrupt, Cat(where, ": tensor_types: expected at most ", kMaxTypeRules,
                                     " rules, found ", rules->size())};
  for (const Json& rule : *rules) {
    if (!rule.is_string() || rule.get_ref<const std::string&>().empty())
      return Error{Code::kCorrupt,
                   Cat(where, ": tensor_types: expected REGEX=TYPE, found ", DescribeJson(rule))};
    types.tensor_types.push_back(rule.get<std::string>());
  }
  return types;
}

namespace {

Status CheckTopKKnown(const MoeModel& model) {
  for (const MoeLayer& layer : model.layers()) {
    if (layer.top_k > 0) continue;
    if (model.has_config()) {
      const std::string key =
          model.checkpoint().is_gguf()
              ? Cat("key ", Quoted(Cat(model.config().architecture, ".expert_used_count")), ": ")
              : "";
      return Error{Code::kCorrupt, Cat(model.config_path().string(), ": ", key,
                                       "experts per token: expected a number for layer ",
                                       layer.layer, ", found none")};
    }
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

// The layers in which a table fixes the experts of a token by its id (DeepSeek-V4).
std::set<uint32_t> HashLayers(const MoeModel& model) {
  std::set<uint32_t> layers;
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.rule != nullptr && tensor.rule->holds_expert_ids &&
        model.FindLayer(tensor.layer) != nullptr)
      layers.insert(*tensor.layer);
  }
  return layers;
}

// Every group holds all experts of these layers, because no router there could choose others than
// those that the table names.
Status KeepWhole(const std::set<uint32_t>& layers, Plan& plan) {
  for (const uint32_t layer : layers) {
    if (!IdsOf(plan.remainder, layer).empty()) {
      return Error{
          Code::kInvalidArgument,
          Cat("plan: layer ", layer, ", which routes by the token's id: expected every ",
              "expert in a group, found ", IdsOf(plan.remainder, layer).size(), " in none")};
    }
    ExpertIds all(plan.layers.at(layer));
    std::iota(all.begin(), all.end(), 0u);
    for (GroupPlan& group : plan.groups) {
      ExpertIds others = Difference(all, IdsOf(group.owned, layer));
      if (!others.empty()) group.fill[layer] = std::move(others);
    }
  }
  return Ok();
}

// A partition that does not use statistics gives every expert to a group, however few may be
// eligible.
Status CheckNotBeyond(const Plan& plan, const std::set<uint32_t>& whole,
                      std::optional<uint32_t> eligible) {
  for (size_t group = 0; eligible && group < plan.groups.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers) {
      const size_t found = Eligible(plan, group, layer).size();
      if (found <= *eligible || whole.contains(layer)) continue;
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

LayerExperts OnNoNode(const Plan& plan) {
  LayerExperts out;
  for (const auto& [layer, ids] : plan.remainder) {
    ExpertIds left = ids;
    for (const OverlayPlan& overlay : plan.overlays)
      left = Difference(left, IdsOf(overlay.experts_by_layer, layer));
    if (!left.empty()) out[layer] = std::move(left);
  }
  return out;
}

bool IsWhole(const Plan& plan, uint32_t layer) {
  return std::all_of(plan.groups.begin(), plan.groups.end(), [&](const GroupPlan& group) {
    const ExpertIds held = Union(IdsOf(group.owned, layer), IdsOf(group.fill, layer));
    return held.size() == plan.layers.at(layer);
  });
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
  const std::set<uint32_t> whole = HashLayers(model);
  SHARD_CHECK(KeepWhole(whole, plan));
  // Not more than was asked for, so that the groups' version does not depend on the overlay.
  plan.uniform = options.uniform && options.rooms.empty();
  // Groups are filled before the overlay: their bundles must not change when an overlay is
  // replaced.
  if (plan.uniform) SHARD_CHECK(FillUniformly(plan, LeastHeld(options, plan), whole));
  // Layers that stay whole have more than the others.
  if (!whole.empty()) plan.uniform = plan.uniform && IsUniform(plan);
  if (!plan.overlays.empty())
    SHARD_CHECK(FillOverlay(plan, PreferenceOf(basis), plan.overlays.front()));
  SHARD_CHECK(CheckEnoughEligible(plan));
  SHARD_CHECK(CheckNotBeyond(plan, whole, options.eligible));
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

// Gives all groups and layers the same number of experts, because stock llama.cpp reads a single
// expert_count. Overlays do not matter: a group must keep its bytes when the overlay changes.

namespace {

// The experts that a group has in a layer. A partition by scores has already filled in what its
// groups share.
ExpertIds HeldIn(const GroupPlan& group, uint32_t layer) {
  return Union(IdsOf(group.owned, layer), IdsOf(group.fill, layer));
}

size_t LargestCount(const Plan& plan, const std::set<uint32_t>& whole) {
  size_t largest = 0;
  for (const GroupPlan& group : plan.groups) {
    for (const auto& [layer, expert_count] : plan.layers) {
      if (!whole.contains(layer)) largest = std::max(largest, HeldIn(group, layer).size());
    }
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

Status FillUniformly(Plan& plan, size_t least, const std::set<uint32_t>& whole) {
  const size_t largest = LargestCount(plan, whole);
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
