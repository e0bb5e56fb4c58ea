#include "libshard/plan/plan_strategies.h"

#include <algorithm>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/plan/plan_steps.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {
namespace {

// `rooms` does not include the overlay, which every node holds in addition.
Status CheckRoom(const PartitionInput& input, const Plan& plan, size_t group) {
  size_t index = 0;
  for (const auto& [layer, expert_count] : plan.layers) {
    const size_t pinned = IdsOf(input.pinned, layer).size();
    const size_t overlay = IdsOf(OverlayExperts(plan), layer).size();
    // Stock llama.cpp refuses a model with fewer experts than a token uses.
    const size_t top_k = plan.top_k.at(layer);
    const size_t found = input.rooms[group][index++] + overlay;
    // Tokens may use experts that are on every node like any other.
    const size_t everywhere = pinned + overlay;
    if (found >= std::max(top_k, everywhere)) continue;
    const std::string where =
        Cat("plan: group ", group, ": layer ", layer, ": eligible experts: expected at least ");
    if (top_k >= everywhere)
      return Error{Code::kInvalidArgument, Cat(where, top_k, " (per token), found ", found),
                   "raise --eligible, or use fewer groups"};
    return Error{
        Code::kInvalidArgument,
        Cat(where, everywhere, " (", pinned, " pinned",
            overlay > 0 ? Cat(" and ", overlay, " in the overlay") : "", "), found ", found),
        "raise --eligible, use fewer groups, or pin fewer"};
  }
  return Ok();
}

StrategyInput InputFor(const PartitionInput& input, const Plan& plan) {
  StrategyInput out;
  out.scores = input.scores;
  out.sessions = input.sessions;
  out.rooms = input.rooms;
  out.seed = input.seed;
  for (const auto& [layer, expert_count] : plan.layers) {
    out.pinned.push_back(IdsOf(input.pinned, layer));
    out.barred.push_back(IdsOf(OverlayExperts(plan), layer));
  }
  return out;
}

// uses[group][offset + expert]: how much the expert is used by the sessions for which the group
// captures most.
Result<std::vector<std::vector<double>>> UsesByGroup(const SessionShares& shares,
                                                     const HeldSets& held) {
  SHARD_TRY(const std::vector<double> captures, CaptureBySessionAndGroup(shares, held));
  std::vector<uint32_t> group_of_session;
  for (size_t session = 0; session < shares.session_count(); ++session) {
    const auto row = captures.begin() + static_cast<std::ptrdiff_t>(session * held.size());
    const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(held.size()));
    group_of_session.push_back(static_cast<uint32_t>(best - row));
  }
  return SumShares(shares, group_of_session, held.size());
}

bool AllHoldTheSame(const HeldSets& held, size_t layer) {
  return std::all_of(held.begin(), held.end(),
                     [&](const auto& group) { return group[layer] == held[0][layer]; });
}

// `use(group)` is how much the group uses the expert.
template <class Use>
std::optional<size_t> OwnerOf(uint32_t id, size_t layer, const HeldSets& held, const Use& use,
                              const std::vector<size_t>& owned) {
  std::optional<size_t> owner;
  for (size_t group = 0; group < held.size(); ++group) {
    if (!Contains(held[group][layer], id)) continue;
    if (owner && use(group) < use(*owner)) continue;
    // Of groups that use it alike, the one that owns fewer, so that bundles stay about equal.
    if (owner && use(group) == use(*owner) && owned[group] >= owned[*owner]) continue;
    owner = group;
  }
  return owner;
}

void AddLayer(const SessionShares& shares, size_t index, uint32_t layer, const HeldSets& held,
              const std::vector<std::vector<double>>& uses, Plan& plan) {
  // If all groups hold the same, sessions could go to any of them.
  const bool same = AllHoldTheSame(held, index);
  std::vector<size_t> owned(held.size());
  for (uint32_t id = 0; id < shares.expert_count(index); ++id) {
    const auto use = [&](size_t group) {
      return same ? 0 : uses[group][shares.offset(index) + id];
    };
    const auto owner = OwnerOf(id, index, held, use, owned);
    if (!owner) continue;
    ++owned[*owner];
    for (size_t group = 0; group < held.size(); ++group) {
      if (!Contains(held[group][index], id)) continue;
      GroupPlan& own = plan.groups[group];
      (group == *owner ? own.owned : own.fill)[layer].push_back(id);
    }
  }
}

}  // namespace

Status MakeByStrategy(const Strategy& strategy, const PartitionInput& input, Plan& plan) {
  for (size_t group = 0; group < input.rooms.size(); ++group)
    SHARD_CHECK(CheckRoom(input, plan, group));
  SHARD_TRY(const HeldSets held, strategy.hold(InputFor(input, plan)));
  const SessionShares shares(*input.scores, InCanonicalOrder(*input.scores, input.sessions));
  SHARD_TRY(const auto uses, UsesByGroup(shares, held));
  plan.groups.resize(held.size());
  size_t index = 0;
  for (const auto& [layer, expert_count] : plan.layers)
    AddLayer(shares, index++, layer, held, uses, plan);
  plan.remainder = Unowned(plan);
  return Ok();
}

}  // namespace moepack
