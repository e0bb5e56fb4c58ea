#include "libshard/strategies/balanced_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace moepack {
namespace {

// A sweep compares all pairs of sessions, or of groups; the bound ends those for gains that hardly
// count.
constexpr size_t kMostSweeps = 8;

class Assignment {
 public:
  Assignment(const std::vector<double>& values, size_t groups, size_t most)
      : values_(values),
        groups_(groups),
        most_(most),
        group_(values.size() / groups),
        sizes_(groups) {}

  void Choose() {
    std::vector<size_t> order(group_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<double> lead(group_.size());
    for (size_t session = 0; session < lead.size(); ++session) lead[session] = LeadOf(session);
    // Who loses most by the next best group chooses while its best one still has room.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return lead[a] > lead[b]; });
    for (const size_t session : order) Put(session, BestWithRoom(session));
  }

  // An empty group gets the session that loses the least by the move.
  void FillEmpty() {
    for (uint32_t group = 0; group < groups_; ++group) {
      if (sizes_[group] > 0) continue;
      size_t moved = group_.size();
      double least = std::numeric_limits<double>::infinity();
      for (size_t session = 0; session < group_.size(); ++session) {
        const double loss = Value(session, group_[session]) - Value(session, group);
        if (sizes_[group_[session]] < 2 || loss >= least) continue;
        least = loss;
        moved = session;
      }
      --sizes_[group_[moved]];
      Put(moved, group);
    }
  }

  void Improve() {
    bool full = false;
    for (const size_t size : sizes_) full = full || size >= most_;
    if (!full) return;  // every session has the group that suits it best
    const bool compare = group_.size() <= kMostComparedSessions;
    for (size_t sweep = 0; sweep < kMostSweeps && (compare ? Sweep() : SweepByGroups()); ++sweep) {
    }
  }

  std::vector<uint32_t> Take() && { return std::move(group_); }

 private:
  double Value(size_t session, size_t group) const { return values_[session * groups_ + group]; }

  // How much better the best group is than the next best.
  double LeadOf(size_t session) const {
    double best = -std::numeric_limits<double>::infinity(), next = best;
    for (size_t group = 0; group < groups_; ++group) {
      const double value = Value(session, group);
      next = std::max(next, std::min(best, value));
      best = std::max(best, value);
    }
    return groups_ > 1 ? best - next : 0;
  }

  uint32_t BestWithRoom(size_t session) const {
    uint32_t best = 0;
    double value = -std::numeric_limits<double>::infinity();
    for (uint32_t group = 0; group < groups_; ++group) {
      if (sizes_[group] >= most_ || Value(session, group) <= value) continue;
      value = Value(session, group);
      best = group;
    }
    return best;
  }

  void Put(size_t session, uint32_t group) {
    group_[session] = group;
    ++sizes_[group];
  }

  // To groups that have room and suit the session better.
  bool Move(size_t session) {
    bool changed = false;
    for (uint32_t group = 0; group < groups_; ++group) {
      // A move must not empty the group it leaves.
      if (sizes_[group] >= most_ || sizes_[group_[session]] < 2) continue;
      if (Value(session, group) <= Value(session, group_[session])) continue;
      --sizes_[group_[session]];
      Put(session, group);
      changed = true;
    }
    return changed;
  }

  bool Sweep() {
    bool changed = false;
    for (size_t a = 0; a < group_.size(); ++a) {
      changed |= Move(a);
      for (size_t b = 0; b < a; ++b) {
        const uint32_t of_a = group_[a], of_b = group_[b];
        if (of_a == of_b) continue;
        if (Value(a, of_b) + Value(b, of_a) <= Value(a, of_a) + Value(b, of_b)) continue;
        std::swap(group_[a], group_[b]);
        changed = true;
      }
    }
    return changed;
  }

  bool SweepByGroups() {
    bool changed = false;
    for (size_t session = 0; session < group_.size(); ++session) changed |= Move(session);
    for (uint32_t a = 0; a < groups_; ++a) {
      for (uint32_t b = 0; b < a; ++b) changed |= Exchange(a, b);
    }
    return changed;
  }

  // What each session of a group gains in another, which may be negative; the largest first.
  std::vector<std::pair<double, size_t>> Gains(uint32_t from, uint32_t to) const {
    std::vector<std::pair<double, size_t>> gains;
    for (size_t session = 0; session < group_.size(); ++session) {
      if (group_[session] == from)
        gains.emplace_back(Value(session, to) - Value(session, from), session);
    }
    std::sort(gains.begin(), gains.end(), [](const auto& one, const auto& other) {
      return one.first > other.first || (one.first == other.first && one.second < other.second);
    });
    return gains;
  }

  // Swaps the sessions that gain most for each other: no other pairs of the two groups gain more.
  bool Exchange(uint32_t a, uint32_t b) {
    const auto of_a = Gains(a, b), of_b = Gains(b, a);
    size_t swapped = 0;
    while (swapped < std::min(of_a.size(), of_b.size()) &&
           of_a[swapped].first + of_b[swapped].first > 0) {
      group_[of_a[swapped].second] = b;
      group_[of_b[swapped].second] = a;
      ++swapped;
    }
    return swapped > 0;
  }

  const std::vector<double>& values_;
  size_t groups_, most_;
  std::vector<uint32_t> group_;
  std::vector<size_t> sizes_;
};

}  // namespace

size_t MostSessions(size_t sessions, size_t groups) {
  // 1.5 times the average size, rounded up in whole numbers.
  return (3 * sessions + 2 * groups - 1) / (2 * groups);
}

std::vector<uint32_t> BalancedGroups(const std::vector<double>& values, size_t groups,
                                     size_t most) {
  Assignment assignment(values, groups, most);
  assignment.Choose();
  assignment.FillEmpty();
  assignment.Improve();
  return std::move(assignment).Take();
}

}  // namespace moepack
