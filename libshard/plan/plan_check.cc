// The rules that every plan obeys, whether it was made here or read from a file.
#include <algorithm>
#include <limits>
#include <set>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
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

}  // namespace moepack
