// The strategy `session`. For fixed groups of sessions the best set of a group is the best experts
// of its sessions, layer by layer; for fixed sets the best group of a session is the one that
// captures most of it. The two steps alternate, starting from the clusters of k-means, until
// nothing changes. Of more than kMostComparedSessions, k-means clusters a sample, and all sessions
// start in the groups whose sets suit them best.
#include <algorithm>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/base/spread_order.h"
#include "libshard/base/text/text.h"
#include "libshard/strategies/session_clusters.h"
#include "libshard/strategies/session_shares.h"
#include "libshard/strategies/strategy.h"

namespace moepack {
namespace {

// k-means finds the optimum nearest to its start, so it starts from several places.
constexpr size_t kRestarts = 24;
// Turns end when capture no longer grows; this bounds those that gain next to nothing.
constexpr size_t kMostTurns = 30;
// From how many of the clusterings sets are made: from all of them if that costs little.
constexpr size_t kFewStarts = 3;
constexpr size_t kSmallProblem = size_t{1} << 22;  // scores of all sessions
// The least sessions of a sample for each group.
constexpr size_t kSampledPerGroup = 8;

struct Grouping {
  double captured = -1;
  HeldSets held;
};

class SessionPlanner {
 public:
  SessionPlanner(const StrategyInput& input, const SessionShares& shares)
      : input_(input), shares_(shares) {}

  Result<Grouping> From(std::vector<uint32_t> group_of_session) const {
    SHARD_CHECK(MatchRooms(group_of_session));
    Grouping best;
    for (size_t turn = 0; turn < kMostTurns; ++turn) {
      SHARD_TRY(HeldSets held, SetsFor(group_of_session));
      SHARD_TRY(const std::vector<double> captures, CaptureBySessionAndGroup(shares_, held));
      const double captured = Captured(captures, group_of_session);
      // The limit on group sizes can cost capture, so a turn may be worse than the one before; the
      // best one counts.
      if (captured <= best.captured) break;
      best = {captured, std::move(held)};
      std::vector<uint32_t> next =
          BalancedGroups(captures, groups(), MostSessions(shares_.session_count(), groups()));
      if (next == group_of_session) break;
      group_of_session = std::move(next);
    }
    return best;
  }

 private:
  size_t groups() const { return input_.rooms.size(); }

  static double Captured(const std::vector<double>& captures,
                         const std::vector<uint32_t>& group_of_session) {
    const size_t groups = captures.size() / group_of_session.size();
    double sum = 0;
    for (size_t session = 0; session < group_of_session.size(); ++session)
      sum += captures[session * groups + group_of_session[session]];
    return sum;
  }

  Result<HeldSets> SetsFor(const std::vector<uint32_t>& group_of_session) const {
    SHARD_TRY(const auto sums, SumShares(shares_, group_of_session, groups()));
    // Experts that a group does not use are all worth 0 to it. Of those, the ones that all sessions
    // use most come first.
    std::vector<double> all(shares_.width());
    for (const std::vector<double>& sum : sums)
      std::transform(all.begin(), all.end(), sum.begin(), all.begin(), std::plus<>());
    HeldSets held(groups(), std::vector<ExpertIds>(shares_.layer_count()));
    for (size_t group = 0; group < groups(); ++group) {
      for (size_t layer = 0; layer < shares_.layer_count(); ++layer)
        held[group][layer] =
            BestExperts(Part(sums[group], layer), Part(all, layer), input_.rooms[group][layer],
                        input_.pinned[layer], input_.barred[layer]);
    }
    return held;
  }

  std::span<const double> Part(const std::vector<double>& sums, size_t layer) const {
    return std::span(sums).subspan(shares_.offset(layer), shares_.expert_count(layer));
  }

  // If groups differ in room, clusters are swapped as long as that captures more.
  Status MatchRooms(std::vector<uint32_t>& group_of_session) const {
    // With equal rooms the order of the clusters makes no difference.
    const bool equal = std::all_of(input_.rooms.begin(), input_.rooms.end(),
                                   [&](const auto& rooms) { return rooms == input_.rooms[0]; });
    if (equal) return Ok();
    SHARD_TRY(const auto sums, SumShares(shares_, group_of_session, groups()));
    std::vector<std::vector<double>> value(groups());  // by cluster, then group
    for (size_t cluster = 0; cluster < groups(); ++cluster) {
      for (size_t group = 0; group < groups(); ++group)
        value[cluster].push_back(ValueIn(sums[cluster], group));
    }
    std::vector<uint32_t> place(groups());
    std::iota(place.begin(), place.end(), 0u);
    bool changed = true;
    for (size_t sweep = 0; changed && sweep < groups(); ++sweep) {
      changed = false;
      for (size_t a = 0; a < groups(); ++a) {
        for (size_t b = 0; b < a; ++b) {
          const double now = value[a][place[a]] + value[b][place[b]];
          if (value[a][place[b]] + value[b][place[a]] <= now) continue;
          std::swap(place[a], place[b]);
          changed = true;
        }
      }
    }
    for (uint32_t& group : group_of_session) group = place[group];
    return Ok();
  }

  double ValueIn(const std::vector<double>& sums, size_t group) const {
    double value = 0;
    for (size_t layer = 0; layer < shares_.layer_count(); ++layer) {
      const std::span<const double> part = Part(sums, layer);
      for (const uint32_t id : BestExperts(part, part, input_.rooms[group][layer],
                                           input_.pinned[layer], input_.barred[layer]))
        value += part[id];
    }
    return value;
  }

  const StrategyInput& input_;
  const SessionShares& shares_;
};

// The clusters that k-means finds.
Result<std::vector<std::vector<uint32_t>>> StartsFor(const StrategyInput& input,
                                                     const SessionShares& shares) {
  SHARD_TRY(const SessionGram gram, SessionGram::Of(shares));
  return ClusterSessions(gram, input.rooms.size(), kRestarts, input.seed);
}

// Some of the sessions, spread over their order, which they keep.
std::vector<size_t> SampleOf(const std::vector<size_t>& ordered, size_t size) {
  std::vector<size_t> places = SpreadOrder(ordered.size());
  places.resize(size);
  std::sort(places.begin(), places.end());
  for (size_t& place : places) place = ordered[place];
  return places;
}

// Without the worst ones where sets are costly to make.
void KeepFewOfLargeProblem(const SessionShares& shares,
                           std::vector<std::vector<uint32_t>>& starts) {
  if (shares.width() * shares.session_count() > kSmallProblem)
    starts.resize(std::min(starts.size(), kFewStarts));
}

// Groups of all sessions, from the sets that suit a sample of them best.
Result<std::vector<std::vector<uint32_t>>> StartsFromSample(const StrategyInput& input,
                                                            const SessionShares& shares,
                                                            std::vector<size_t> sample) {
  const size_t groups = input.rooms.size();
  const SessionShares some(*input.scores, std::move(sample));
  SHARD_TRY(std::vector<std::vector<uint32_t>> starts, StartsFor(input, some));
  KeepFewOfLargeProblem(some, starts);
  const SessionPlanner planner(input, some);
  std::vector<Grouping> found;
  for (std::vector<uint32_t>& start : starts) {
    SHARD_TRY(Grouping grouping, planner.From(std::move(start)));
    found.push_back(std::move(grouping));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Grouping& a, const Grouping& b) { return a.captured > b.captured; });
  found.resize(std::min(found.size(), kFewStarts));
  starts.clear();
  for (const Grouping& grouping : found) {
    SHARD_TRY(const auto captures, CaptureBySessionAndGroup(shares, grouping.held));
    starts.push_back(
        BalancedGroups(captures, groups, MostSessions(shares.session_count(), groups)));
  }
  return starts;
}

// Sessions that use the same experts share a group: balanced k-means over sessions, then
// alternately the best set for every group's sessions and the best group for every session. Groups
// may share experts. Of more sessions than kMostComparedSessions (session_clusters.h) a sample is
// clustered. kInvalidArgument for fewer sessions than groups.
Result<HeldSets> HoldForSessions(const StrategyInput& input) {
  const size_t groups = input.rooms.size();
  if (input.sessions.size() < groups)
    return Error{Code::kInvalidArgument,
                 Cat("statistics: sessions to plan from: expected at least ", groups,
                     ", one per group, found ", input.sessions.size()),
                 "profile more sessions, hold out fewer, or use --partition ranked or same"};
  const std::vector<size_t> ordered = InCanonicalOrder(*input.scores, input.sessions);
  const SessionShares shares(*input.scores, ordered);
  std::vector<std::vector<uint32_t>> starts;
  // k-means compares every session with every other.
  const size_t most = std::max(kMostComparedSessions, kSampledPerGroup * groups);
  if (ordered.size() <= most) {
    SHARD_TRY(starts, StartsFor(input, shares));
  } else {
    SHARD_TRY(starts, StartsFromSample(input, shares, SampleOf(ordered, most)));
  }
  KeepFewOfLargeProblem(shares, starts);
  const SessionPlanner planner(input, shares);
  Grouping best;
  for (std::vector<uint32_t>& start : starts) {
    SHARD_TRY(Grouping grouping, planner.From(std::move(start)));
    if (grouping.captured > best.captured) best = std::move(grouping);
  }
  return std::move(best.held);
}

}  // namespace

constinit const Strategy kHoldForSessions = {
    .name = "session",
    .random_starts = true,
    .help =
        "the experts of sessions that are alike; the default with statistics of at least one "
        "session per group",
    .hold = HoldForSessions};

}  // namespace moepack
