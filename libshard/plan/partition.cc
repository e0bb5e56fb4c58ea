#include "libshard/plan/partition.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/plan_steps.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {
namespace {

// Partitions that decide from scores: the sets chosen by a strategy become groups with owners.

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

// Sets groups and remainder of the plan. Among the groups that hold an expert, the one whose
// sessions use it most owns it; if several are equal, the one that owns the fewest in the layer so
// far, then the lowest. For the others it is fill. kInvalidArgument if a group has no room for
// top-k and the pinned experts.
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

ExpertIds ContiguousRun(uint32_t expert_count, uint32_t groups, uint32_t group) {
  ExpertIds ids;
  const uint32_t end = RunStart(expert_count, groups, group + 1);
  for (uint32_t id = RunStart(expert_count, groups, group); id < end; ++id) ids.push_back(id);
  return ids;
}

ExpertIds EveryNth(uint32_t expert_count, uint32_t groups, uint32_t group) {
  ExpertIds ids;
  for (uint32_t id = group; id < expert_count; id += groups) ids.push_back(id);
  return ids;
}

// Makes a partition from a formula.
template <ExpertIds (*kIdsOf)(uint32_t expert_count, uint32_t groups, uint32_t group)>
Status MakeByFormula(const PartitionInput& input, Plan& plan) {
  SHARD_CHECK(AsUserMistake(CheckGroupCount("plan", plan, input.groups)));
  plan.groups.resize(input.groups);
  for (uint32_t group = 0; group < input.groups; ++group) {
    for (const auto& [layer, expert_count] : plan.layers)
      plan.groups[group].owned[layer] = kIdsOf(expert_count, input.groups, group);
  }
  return Ok();
}

// Refuses a layer that no group mentions. The user must have forgotten it: nobody drops all experts
// of a layer on purpose.
Status CheckEveryLayerOwned(const std::string& path, const Plan& plan) {
  for (const auto& [layer, expert_count] : plan.layers) {
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

Status MakeExplicit(const PartitionInput& input, Plan& plan) {
  SHARD_TRY(const Json document, ReadJsonFile(input.file));
  SHARD_CHECK(AsUserMistake(ApplyExplicit(input.file, document, plan)));
  plan.remainder = Unowned(plan);
  if (input.groups == 0 || input.groups == plan.groups.size()) return Ok();
  return Error{Code::kInvalidArgument, Cat(input.file, ": groups: expected ", input.groups,
                                           " as --groups says, found ", plan.groups.size())};
}

constexpr Partition kFromNumbers[] = {
    {.name = kContiguous,
     .help = "0-5, 6-10, ...; the default without statistics",
     .make = MakeByFormula<ContiguousRun>},
    {.name = "modulo", .help = "expert id modulo N", .make = MakeByFormula<EveryNth>},
    {.name = "explicit",
     .takes_file = true,
     .help = "ids of every group and layer",
     .make = MakeExplicit},
};

#define SHARD_LIST_STRATEGY(name) &name,
constexpr const Strategy* kStrategies[] = {SHARD_STRATEGIES(SHARD_LIST_STRATEGY)};
#undef SHARD_LIST_STRATEGY

// All rows: from numbers alone, then from statistics.
const std::vector<Partition>& Partitions() {
  static const std::vector<Partition> partitions = [] {
    std::vector<Partition> rows(std::begin(kFromNumbers), std::end(kFromNumbers));
    for (const Strategy* strategy : kStrategies) {
      rows.push_back({.name = strategy->name,
                      .by_scores = true,
                      .reads_pairs = strategy->reads_pairs,
                      .random_starts = strategy->random_starts,
                      .help = strategy->help,
                      .strategy = strategy});
    }
    return rows;
  }();
  return partitions;
}

// The name as users write it: "modulo", "explicit:FILE".
std::string Spelling(const Partition& partition) {
  return Cat(partition.name, partition.takes_file ? ":FILE" : "");
}

// "a, b or c", each spelled by `spell`.
template <class Spell>
std::string Listed(const Spell& spell) {
  std::string out;
  for (const Partition& partition : Partitions()) {
    const bool first = &partition == &Partitions().front(),
               last = &partition == &Partitions().back();
    out += Cat(first ? "" : last ? " or " : ", ", spell(partition));
  }
  return out;
}

}  // namespace

std::string PartitionHelp() {
  return Listed([](const Partition& partition) {
    return Cat(Spelling(partition), " (", partition.help, ")");
  });
}

Result<PartitionChoice> ParsePartition(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const bool has_file = name.size() < text.size();
  const std::string_view file = has_file ? text.substr(name.size() + 1) : "";
  for (const Partition& partition : Partitions()) {
    if (partition.name == name && partition.takes_file == has_file && file.empty() != has_file)
      return PartitionChoice{&partition, std::string(file)};
  }
  std::vector<std::string> spellings;
  for (const Partition& partition : Partitions()) spellings.push_back(Spelling(partition));
  return Error{Code::kInvalidArgument, Cat("expected ", Listed(Spelling), ", found ", Quoted(text)),
               DidYouMean(text, spellings)};
}

std::vector<std::string> PartitionsWithoutFile() {
  std::vector<std::string> names;
  for (const Partition& partition : Partitions()) {
    if (!partition.takes_file) names.emplace_back(partition.name);
  }
  return names;
}

PartitionDefault DefaultPartition(const PlanOptions& options) {
  if (!options.scores) return {kContiguous, ""};
  const ExpertScores& scores = *options.scores;
  if (scores.layer_agnostic)
    return {kContiguous,
            "because the statistics rank experts over all layers together, which says little"};
  const size_t sessions = SplitSessions(scores, options.held_out).training.size();
  // A cluster needs at least one session, and one session alone shows no kinds to tell apart.
  if (sessions >= std::max<size_t>(2, options.groups))
    return {kHoldForSessions.name,
            Cat("because the statistics have ", sessions, " sessions to plan from")};
  return {kHoldSame.name,
          Cat("because the statistics have ", Plural(sessions, "session"),
              " to plan from, fewer than ", Quoted(kHoldForSessions.name), " needs")};
}

std::string PartitionOf(const PlanOptions& options) {
  return options.partition ? *options.partition : std::string(DefaultPartition(options).name);
}

bool DecidesFromScores(std::string_view scheme) {
  return std::any_of(Partitions().begin(), Partitions().end(), [&](const Partition& partition) {
    return partition.by_scores && partition.name == scheme;
  });
}

bool ReadsPairs(std::string_view choice) {
  const auto parsed = ParsePartition(choice);
  return parsed && parsed->partition->reads_pairs;
}

std::vector<std::string> ComparedPartitions() {
  std::vector<std::string> names = {std::string(Partitions().front().name)};
  for (const Partition& partition : Partitions()) {
    if (partition.by_scores) names.emplace_back(partition.name);
  }
  return names;
}

uint32_t RunStart(uint32_t expert_count, uint32_t groups, uint32_t group) {
  // The first expert_count % groups runs are one expert longer.
  return group * (expert_count / groups) + std::min(group, expert_count % groups);
}

Status PartitionExperts(const PlanOptions& options, const PlanBasis& basis, Plan& plan) {
  auto choice = ParsePartition(PartitionOf(options));
  if (!choice) return std::move(choice).error().Within("plan: partition");
  const Partition& partition = *choice->partition;
  plan.scheme = partition.name;
  PartitionInput input = {.groups = options.groups, .file = choice->file};
  SHARD_CHECK(CheckEligible(options, plan, partition.by_scores));
  if (partition.by_scores) {
    if (!options.scores)
      return Error{Code::kInvalidArgument,
                   Cat("--partition ", partition.name, " needs --statistics FILE"),
                   "`moepack profile` measures them"};
    SHARD_CHECK(AsUserMistake(CheckGroupCount("plan", plan, options.groups)));
    input.scores = basis.scores.get();
    input.sessions = basis.split.training;
    input.pinned = basis.pinned;
    input.seed = options.seed.value_or(0);
    input.rooms = RoomsOf(options, plan);
  }
  return partition.strategy != nullptr ? MakeByStrategy(*partition.strategy, input, plan)
                                       : partition.make(input, plan);
}

}  // namespace moepack
