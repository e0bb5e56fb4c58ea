// The strategy `ranked`: longest processing time first (Graham 1969), then swaps.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "libshard/strategies/session_shares.h"
#include "libshard/strategies/strategy.h"

namespace moepack {
namespace {

// The experts of one layer while they are assigned to groups.
class Deal {
 public:
  Deal(std::span<const double> values, std::vector<size_t> room)
      : values_(values), room_(std::move(room)), sums_(room_.size()), hands_(room_.size()) {}

  // False if no group has room.
  bool Give(uint32_t id) {
    // The group with the smallest sum so far; of equal ones the first.
    std::optional<size_t> to;
    for (size_t group = 0; group < room_.size(); ++group) {
      if (hands_[group].size() >= room_[group]) continue;
      if (!to || sums_[group] < sums_[*to]) to = group;
    }
    if (!to) return false;
    hands_[*to].push_back(id);
    sums_[*to] += values_[id];
    return true;
  }

  // Moves or swaps experts between the groups with the largest and the smallest sum as long as that
  // brings the two closer. Except for rounding, every step reduces the sum of squares, hence the
  // bound.
  void Balance() {
    const size_t most_steps = 8 * values_.size();
    for (size_t step = 0; step < most_steps && BalanceOnce(); ++step) {
    }
  }

  const ExpertIds& hand(size_t group) const { return hands_[group]; }

 private:
  struct Step {
    double difference;
    size_t from, to;  // indexes in the two hands; `to` past the end of its hand: a move
  };

  bool BalanceOnce() {
    const auto [least, most] = std::minmax_element(sums_.begin(), sums_.end());
    const auto low = static_cast<size_t>(least - sums_.begin());
    const auto high = static_cast<size_t>(most - sums_.begin());
    const double difference = sums_[high] - sums_[low];
    const Step best = BestStep(high, low, difference);
    // The margin keeps rounding errors from counting as progress.
    if (!(best.difference < difference * (1 - 1e-9))) return false;
    ExpertIds &from = hands_[high], &to = hands_[low];
    if (best.to == to.size()) {
      to.push_back(from[best.from]);
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(best.from));
    } else {
      std::swap(from[best.from], to[best.to]);
    }
    // Sums made anew do not gather the rounding errors of all steps.
    sums_[high] = SumOf(from);
    sums_[low] = SumOf(to);
    return true;
  }

  Step BestStep(size_t high, size_t low, double difference) const {
    const ExpertIds &from = hands_[high], &to = hands_[low];
    const size_t places = to.size() + (to.size() < room_[low] ? 1 : 0);
    Step best{difference, 0, 0};
    for (size_t i = 0; i < from.size(); ++i) {
      for (size_t j = 0; j < places; ++j) {
        const double moved = values_[from[i]] - (j < to.size() ? values_[to[j]] : 0);
        // One sum loses what the other gains, so the difference changes by twice the moved value.
        const double left = std::abs(difference - 2 * moved);
        if (left < best.difference) best = {left, i, j};
      }
    }
    return best;
  }

  double SumOf(const ExpertIds& ids) const {
    return std::accumulate(ids.begin(), ids.end(), 0.0,
                           [this](double sum, uint32_t id) { return sum + values_[id]; });
  }

  std::span<const double> values_;
  std::vector<size_t> room_;
  std::vector<double> sums_;
  std::vector<ExpertIds> hands_;
};

// The experts that may be assigned, best first.
ExpertIds BestFirst(std::span<const double> values, const ExpertIds& pinned,
                    const ExpertIds& barred) {
  ExpertIds ids;
  for (uint32_t id = 0; id < values.size(); ++id) {
    if (!Contains(pinned, id) && !Contains(barred, id)) ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(),
                   [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
  return ids;
}

// Groups of equal weight: layer by layer, the best remaining expert goes to the group with room
// that has the smallest sum of scores, then experts are swapped as long as the sums get closer. The
// remaining room is filled with the best experts that the group lacks.
Result<HeldSets> HoldRanked(const StrategyInput& input) {
  const std::vector<size_t> sessions = InCanonicalOrder(*input.scores, input.sessions);
  const SessionShares shares(*input.scores, sessions);
  const std::vector<double> sums = SumOfScores(*input.scores, sessions);
  HeldSets held(input.rooms.size(), std::vector<ExpertIds>(shares.layer_count()));
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    const auto values = std::span(sums).subspan(shares.offset(layer), shares.expert_count(layer));
    const ExpertIds &pinned = input.pinned[layer], &barred = input.barred[layer];
    std::vector<size_t> room;
    for (const auto& rooms : input.rooms) room.push_back(rooms[layer] - pinned.size());
    Deal deal(values, std::move(room));
    // Pinned experts are on every node and weigh the same there, so they take part in no
    // comparison.
    for (const uint32_t id : BestFirst(values, pinned, barred)) {
      if (!deal.Give(id)) break;
    }
    deal.Balance();
    for (size_t group = 0; group < held.size(); ++group) {
      ExpertIds own = deal.hand(group);
      // Room that is left once every expert has an owner goes to the best experts of other groups.
      std::sort(own.begin(), own.end());
      held[group][layer] =
          BestExperts(values, values, input.rooms[group][layer], Union(own, pinned), barred);
    }
  }
  return held;
}

}  // namespace

constinit const Strategy kHoldRanked = {
    .name = "ranked", .help = "groups of equal weight in what tokens choose", .hold = HoldRanked};

}  // namespace moepack
