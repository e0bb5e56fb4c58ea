// The rules that every plan obeys, whether it was made here or read from a file.
#include <algorithm>
#include <limits>
#include <set>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/model/family_match.h"
#include "libshard/plan/partition.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

constexpr size_t kMaxLabel = 64;
constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

bool IsLabelCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// Ids must ascend and be below the layer's expert count, and the layer must have experts.
Status CheckIds(const std::string& where, const LayerExperts& sets, const LayerCounts& layers) {
  for (const auto& [layer, ids] : sets) {
    const std::string place = Cat(where, ": layer ", layer);
    const auto count = layers.find(layer);
    if (count == layers.end() && !ids.empty())
      return Error{Code::kCorrupt,
                   Cat(place, ": expected a layer with routed experts, found none")};
    if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) != ids.end())
      return Error{Code::kCorrupt, Cat(place, ": expected ascending ids, found ", FormatIds(ids))};
    if (!ids.empty() && ids.back() >= count->second) {
      return Error{Code::kCorrupt,
                   Cat(place, ": expected ids below ", count->second, ", found ", ids.back())};
    }
  }
  return Ok();
}

std::string OverlayPlace(const std::string& where, const OverlayPlan& overlay) {
  return Cat(where, ": overlay ", Quoted(overlay.version));
}

Status CheckAllIds(const std::string& where, const Plan& plan) {
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const std::string place = Cat(where, ": group ", group);
    SHARD_CHECK(CheckIds(place, plan.groups[group].owned, plan.layers));
    SHARD_CHECK(CheckIds(place + ": fill", plan.groups[group].fill, plan.layers));
  }
  for (const OverlayPlan& overlay : plan.overlays) {
    const std::string place = OverlayPlace(where, overlay);
    SHARD_CHECK(CheckIds(place, overlay.experts_by_layer, plan.layers));
    for (size_t group = 0; group < overlay.fill.size(); ++group) {
      SHARD_CHECK(
          CheckIds(Cat(place, ": fill of group ", group), overlay.fill[group], plan.layers));
    }
  }
  return CheckIds(where + ": remainder", plan.remainder, plan.layers);
}

// Groups and remainder together must contain all experts, and no expert may be in both.
Status CheckCoverage(const std::string& where, const Plan& plan) {
  const LayerExperts unowned = Unowned(plan);
  for (const auto& [layer, expert_count] : plan.layers) {
    const ExpertIds& expected = IdsOf(unowned, layer);
    const ExpertIds& found = IdsOf(plan.remainder, layer);
    if (expected == found) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": layer ", layer, ": remainder: expected the experts of no group, \"",
                     FormatIds(expected), "\", found \"", FormatIds(found), "\"")};
  }
  return Ok();
}

// The experts of a fill must be owned by another group.
Status CheckFill(const std::string& where, const Plan& plan) {
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, fill] : plan.groups[group].fill) {
      const ExpertIds barred =
          Union(IdsOf(plan.groups[group].owned, layer), IdsOf(plan.remainder, layer));
      const ExpertIds allowed = Difference(fill, barred);
      if (allowed.size() == fill.size()) continue;
      return Error{Code::kCorrupt, Cat(where, ": group ", group, ": layer ", layer,
                                       ": fill: expected experts of other groups, found ",
                                       FormatIds(Difference(fill, allowed)))};
    }
  }
  return Ok();
}

// The fill of an overlay must be experts that the group would not have without it, and that may be
// shipped.
Status CheckOverlayFill(const std::string& place, const Plan& plan, const OverlayPlan& overlay) {
  if (!overlay.fill.empty() && overlay.fill.size() != plan.groups.size()) {
    return Error{Code::kCorrupt,
                 Cat(place, ": fill: expected one entry for each of the ",
                     Plural(plan.groups.size(), "group"), ", found ", overlay.fill.size())};
  }
  for (size_t group = 0; group < overlay.fill.size(); ++group) {
    const LayerExperts held = HeldBy(plan.groups[group]);
    for (const auto& [layer, fill] : overlay.fill[group]) {
      const ExpertIds barred =
          Union(Union(IdsOf(held, layer), IdsOf(overlay.experts_by_layer, layer)),
                IdsOf(plan.remainder, layer));
      const ExpertIds allowed = Difference(fill, barred);
      if (allowed == fill) continue;
      return Error{Code::kCorrupt,
                   Cat(place, ": fill of group ", group, ": layer ", layer,
                       ": expected experts of other groups that are not in the overlay, found ",
                       FormatIds(Difference(fill, allowed)))};
    }
  }
  return Ok();
}

Status CheckLabel(const std::string& place, const char* key, const std::string& text) {
  if (IsLabel(text)) return Ok();
  return Error{Code::kCorrupt,
               Cat(place, ": ", key, ": expected 1 to ", kMaxLabel,
                   " of [A-Za-z0-9._-], the first not a dot, found ", Quoted(text))};
}

Status CheckOverlays(const std::string& where, const Plan& plan) {
  std::set<std::string_view> versions;
  for (const OverlayPlan& overlay : plan.overlays) {
    const std::string place = OverlayPlace(where, overlay);
    SHARD_CHECK(CheckLabel(place, "version", overlay.version));
    if (!versions.insert(overlay.version).second)
      return Error{Code::kCorrupt, Cat(place, ": version: expected once, found twice")};
    if (!overlay.parent.empty()) SHARD_CHECK(CheckLabel(place, "parent", overlay.parent));
    if (overlay.parent == overlay.version)
      return Error{Code::kCorrupt, Cat(place, ": parent: expected another version, found itself")};
    if (CountIds(overlay.experts_by_layer) == 0)
      return Error{Code::kCorrupt, Cat(place, ": expected expert ids, found none")};
    SHARD_CHECK(CheckOverlayFill(place, plan, overlay));
  }
  return Ok();
}

// Records `group` as the owner of its experts of one layer; kCorrupt if one has an owner already.
Status ClaimExperts(const std::string& place, const ExpertIds& ids, uint32_t group,
                    std::vector<uint32_t>& owners) {
  for (const uint32_t id : ids) {
    if (owners[id] != kNobody) {
      return Error{Code::kCorrupt,
                   Cat(place, ": expert ", id, ": expected one group, found groups ", owners[id],
                       " and ", group)};
    }
    owners[id] = group;
  }
  return Ok();
}

}  // namespace

bool IsLabel(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLabel && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), IsLabelCharacter);
}

LayerExperts Unowned(const Plan& plan) {
  LayerExperts unowned;
  for (const auto& [layer, expert_count] : plan.layers) {
    std::vector<bool> owned(expert_count);
    for (const GroupPlan& group : plan.groups) {
      for (const uint32_t id : IdsOf(group.owned, layer)) owned[id] = true;
    }
    for (uint32_t id = 0; id < expert_count; ++id) {
      if (!owned[id]) unowned[layer].push_back(id);
    }
  }
  return unowned;
}

Status CheckGroupCount(const std::string& where, const Plan& plan, size_t groups) {
  if (groups == 0) return Error{Code::kCorrupt, where + ": groups: expected at least 1, found 0"};
  const auto smallest =
      std::min_element(plan.layers.begin(), plan.layers.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const uint32_t most = smallest == plan.layers.end() ? 0 : smallest->second;
  if (groups > most) {
    return Error{Code::kCorrupt, Cat(where, ": groups: expected at most ", most,
                                     ", the experts of the smallest layer, found ", groups)};
  }
  uint64_t expert_count = 0;
  for (const auto& [layer, count] : plan.layers) expert_count += count;
  if (groups <= kMaxPlanIds / expert_count) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": groups: expected at most ", kMaxPlanIds / expert_count, " for ",
                   Plural(expert_count, "expert"), " in all layers, found ", groups)};
}

Status CheckOneOwner(const std::string& where, const Plan& plan) {
  for (const auto& [layer, expert_count] : plan.layers) {
    std::vector<uint32_t> owners(expert_count, kNobody);
    for (uint32_t group = 0; group < plan.groups.size(); ++group) {
      const ExpertIds& ids = IdsOf(plan.groups[group].owned, layer);
      SHARD_CHECK(ClaimExperts(Cat(where, ": layer ", layer), ids, group, owners));
    }
  }
  return Ok();
}

Status CheckEligibleCounts(const std::string& where, const Plan& plan) {
  for (const OverlayPlan* overlay : OverlaysOf(plan)) {
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      for (const auto& [layer, top_k] : plan.top_k) {
        const size_t count = Eligible(plan, overlay, group, layer).size();
        if (count >= top_k) continue;
        return Error{Code::kCorrupt, Cat(where, ": group ", group, ": layer ", layer,
                                         ": eligible experts: expected at least ", top_k,
                                         " (experts per token), found ", count)};
      }
    }
  }
  return Ok();
}

Status CheckPlan(const std::string& where, const Plan& plan) {
  SHARD_CHECK(CheckGroupCount(where, plan, plan.groups.size()));
  SHARD_CHECK(CheckAllIds(where, plan));
  SHARD_CHECK(CheckOneOwner(where, plan));
  SHARD_CHECK(CheckCoverage(where, plan));
  SHARD_CHECK(CheckFill(where, plan));
  SHARD_CHECK(CheckOverlays(where, plan));
  SHARD_CHECK(CheckEligibleCounts(where, plan));
  if (!plan.uniform || IsUniform(plan)) return Ok();
  return Error{Code::kCorrupt,
               where +
                   ": uniform: expected one eligible count in all groups and layers, found "
                   "several"};
}

// Warnings about plans that are allowed but may surprise. They are printed before anything is
// written.

namespace {

// Published splits lost quality below these shares; they are a reason to measure, not limits.
constexpr uint64_t kMinShare = 4;         // a quarter of the experts
constexpr uint64_t kMinTopKMultiple = 8;  // times the experts per token

// The place with the fewest eligible experts among those below a threshold.
struct Shortage {
  size_t places = 0;
  size_t group = 0;
  uint32_t layer = 0;
  size_t count = std::numeric_limits<size_t>::max();

  void Add(size_t at_group, uint32_t at_layer, size_t eligible) {
    ++places;
    if (eligible >= count) return;
    group = at_group;
    layer = at_layer;
    count = eligible;
  }
};

void WarnSmallGroups(const Plan& plan, std::vector<std::string>& out) {
  Shortage share, multiple;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers) {
      const size_t count = Eligible(plan, group, layer).size();
      const auto top_k = plan.top_k.find(layer);
      if (count * kMinShare < expert_count) share.Add(group, layer, count);
      if (top_k != plan.top_k.end() && count < kMinTopKMultiple * top_k->second)
        multiple.Add(group, layer, count);
    }
  }
  if (share.places > 0) {
    out.push_back(Cat("small groups: below a quarter of the experts quality often suffers; group ",
                      share.group, " may pick from ", share.count, " of ",
                      plan.layers.at(share.layer), " in layer ", share.layer));
  }
  if (multiple.places > 0) {
    out.push_back(Cat("small groups: below ", kMinTopKMultiple,
                      " times the experts per token quality often suffers; group ", multiple.group,
                      " may pick from ", multiple.count, " in layer ", multiple.layer,
                      ", which uses ", plan.top_k.at(multiple.layer), " per token"));
  }
}

void WarnRemainder(const Plan& plan, std::vector<std::string>& out) {
  const LayerExperts left = OnNoNode(plan);
  const uint64_t lost = CountIds(left);
  if (lost == 0) return;
  out.push_back(Cat("remainder: ", Plural(lost, "expert"), " in ", Plural(left.size(), "layer"),
                    lost == 1 ? " is" : " are", " on no node"));
}

// What the overlay's bundle holds for its groups in addition to the overlay's experts.
LayerExperts FillIn(const OverlayPlan& overlay) {
  LayerExperts fill = HeldBy(overlay);
  for (auto& [layer, ids] : fill) ids = Difference(ids, IdsOf(overlay.experts_by_layer, layer));
  return fill;
}

// True if the plan could be made again without fill: --no-uniform cannot be used together with
// --eligible, and some group may need the fill to have what a token uses.
bool FillCanBeLeftOut(Plan plan, const PlanOptions* made_from) {
  if (made_from == nullptr || !made_from->uniform || made_from->eligible) return false;
  for (GroupPlan& group : plan.groups) group.fill.clear();
  for (OverlayPlan& overlay : plan.overlays) overlay.fill.clear();
  return CheckEligibleCounts("plan", plan).has_value();
}

void WarnFill(const MoeModel& model, const Plan& plan, const PlanOptions* made_from,
              std::vector<std::string>& out) {
  if (DecidesFromScores(plan.scheme)) return;  // groups share experts intentionally
  uint64_t expert_count = 0, bytes = 0;
  const auto add = [&](const LayerExperts& fill) {
    for (const MoeLayer& layer : model.layers()) {
      const uint64_t count = IdsOf(fill, layer.layer).size();
      expert_count += count;
      bytes += count * layer.expert_bytes;
    }
  };
  for (const GroupPlan& group : plan.groups) add(group.fill);
  for (const OverlayPlan& overlay : plan.overlays) add(FillIn(overlay));
  if (expert_count == 0) return;
  // Without headers (an index alone) sizes are unknown.
  const std::string cost =
      bytes == 0 ? "" : Cat(" and costs ", FormatBytes(bytes), " in the types of the source");
  out.push_back(Cat("fill: holding the same count everywhere repeats ",
                    Plural(expert_count, "expert"), cost,
                    FillCanBeLeftOut(plan, made_from) ? "; --no-uniform leaves them out" : ""));
}

// Finds nodes that no session would choose. With fewer sessions than nodes, some are idle anyway.
void WarnIdle(const Plan& plan, std::vector<std::string>& out) {
  const PlanExpectation& expected = *plan.expectation;
  if (expected.overall.sessions < plan.groups.size()) return;
  ExpertIds idle;
  for (uint32_t group = 0; group < expected.groups.size(); ++group) {
    if (expected.groups[group].sessions == 0) idle.push_back(group);
  }
  if (idle.empty()) return;
  out.push_back(Cat("idle: none of the ", FormatCount(expected.overall.sessions),
                    expected.held_out > 0 ? " held-out sessions" : " sessions", " would go to ",
                    idle.size() == 1 ? "node " : "nodes ", FormatIds(idle),
                    ", because another node holds more of what each of them uses; use fewer nodes, "
                    "or nodes of one size"));
}

// Expectations that should make users think again.
void WarnExpectation(const Plan& plan, std::vector<std::string>& out) {
  if (!plan.expectation) return;
  const PlanExpectation& expected = *plan.expectation;
  if (expected.held_out == 0)
    out.push_back(
        "expectation: measured on the sessions that the plan was made from, so new ones will find "
        "less; --held-out keeps some apart, if there are several");
  WarnIdle(plan, out);
  // With the same experts everywhere no session needs to be placed, which is worth a small loss.
  if (plan.groups.size() < 2 || plan.scheme == "same" || !DecidesFromScores(plan.scheme)) return;
  if (expected.overall.mean - expected.same.mean >= kLeastGain) return;
  out.push_back(Cat("small gain: sessions find ", FormatShare(expected.overall.mean),
                    " of what they use on their node, and ", FormatShare(expected.same.mean),
                    " with the same experts on every node; --partition same needs no placement"));
}

// True if some node would have different numbers of eligible experts in its layers.
bool LayersOfANodeDiffer(const Plan& plan) {
  const uint32_t first = plan.layers.begin()->first;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const size_t count = Eligible(plan, group, first).size();
    for (const auto& [layer, expert_count] : plan.layers) {
      if (Eligible(plan, group, layer).size() != count) return true;
    }
  }
  return false;
}

void WarnDifferentCounts(const Plan& plan, std::vector<std::string>& out) {
  const auto [least, most] =
      std::minmax_element(plan.layers.begin(), plan.layers.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least->second != most->second) {
    out.push_back(Cat("layers differ in their number of experts: ", least->second, " in layer ",
                      least->first, ", ", most->second, " in layer ", most->first));
  }
  if (!plan.uniform && LayersOfANodeDiffer(plan)) {
    out.push_back(
        "layers of a node differ in their number of eligible experts: stock llama.cpp takes one "
        "count for all layers and cannot load such a node");
  }
}

// True if `ids` has some but not all experts of a routing group of `size` consecutive ids.
bool CutsRoutingGroup(const ExpertIds& ids, uint32_t size) {
  for (size_t i = 0; i < ids.size();) {
    const uint32_t group = ids[i] / size;
    const size_t first = i;
    // Routing groups are runs of consecutive ids, as DeepSeek-V3's router takes them.
    while (i < ids.size() && ids[i] / size == group) ++i;
    if (i - first != size) return true;
  }
  return false;
}

void WarnRoutingGroups(const MoeModel& model, const Plan& plan, std::vector<std::string>& out) {
  const uint32_t groups = model.routing().groups;
  if (groups <= 1) return;
  uint64_t cut = 0;
  for (const auto& [layer, expert_count] : plan.layers) {
    if (expert_count % groups != 0) continue;
    for (size_t group = 0; group < plan.groups.size(); ++group)
      cut += CutsRoutingGroup(Eligible(plan, group, layer), expert_count / groups);
  }
  if (cut == 0) return;
  out.push_back(Cat("routing groups: this router first picks ", model.routing().groups_used, " of ",
                    Plural(groups, "group"), " of experts, and ", FormatCount(cut), " of ",
                    FormatCount(plan.groups.size() * plan.layers.size()),
                    " eligible sets hold parts of such groups; nodes then choose differently, and "
                    "GGUF needs its group keys rewritten"));
}

// GroveMoE: a chunk expert belongs to several experts, and runtimes find it by their numbers.
void WarnChunks(const MoeModel& model, const Plan& plan, std::vector<std::string>& out) {
  const bool chunks =
      std::any_of(model.tensors().begin(), model.tensors().end(),
                  [](const ModelTensor& tensor) { return IsOfChunks(tensor.rule); });
  if (!chunks || plan.groups.size() < 2) return;
  out.emplace_back(
      "chunk experts: runtimes find them by the numbers of experts, which a node counts anew; "
      "stock runtimes cannot run a node, and assemble refuses one; run, check, profile and eval "
      "take the distribution");
}

void WarnHashRouting(const MoeModel& model, const Plan& plan, std::vector<std::string>& out) {
  size_t whole = 0, cut = 0;
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.rule == nullptr || !tensor.rule->holds_expert_ids) continue;
    const bool split = tensor.layer && plan.layers.contains(*tensor.layer);
    ++(split && IsWhole(plan, *tensor.layer) ? whole : cut);
  }
  if (whole > 0 && plan.groups.size() > 1) {
    out.push_back(Cat("hash routing: tables fix the experts of a token by its id in ",
                      Plural(whole, "layer"),
                      ", which every group therefore holds whole; stock runtimes take one number "
                      "of experts for all layers and cannot load such a node"));
  }
  if (cut == 0) return;
  out.push_back(Cat("hash routing: ", cut,
                    " tables fix the experts of a token by its id; tokens whose experts are not on "
                    "a node need substitutes there"));
}

}  // namespace

std::vector<std::string> PlanWarnings(const MoeModel& model, const Plan& plan,
                                      const PlanOptions* made_from) {
  std::vector<std::string> out;
  WarnSmallGroups(plan, out);
  WarnRemainder(plan, out);
  WarnFill(model, plan, made_from, out);
  WarnExpectation(plan, out);
  WarnDifferentCounts(plan, out);
  WarnRoutingGroups(model, plan, out);
  WarnChunks(model, plan, out);
  WarnHashRouting(model, plan, out);
  return out;
}

}  // namespace moepack
