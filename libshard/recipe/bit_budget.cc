#include "libshard/recipe/bit_budget.h"

#include <algorithm>
#include <limits>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Bounds the search. One that ends here keeps the best plan so far, and `bound` says how far that
// may be from the optimum.
constexpr uint64_t kMaxBitSteps = 2'000'000;

// From one corner of an item's hull to the next.
struct BitStep {
  size_t item = 0, to = 0;
  uint64_t bytes = 0;  // additional bytes
  double saved = 0;    // reduction of damage, above 0
  double per_byte() const { return saved / static_cast<double>(bytes); }
};

// The choices on the lower convex hull of (bytes, damage), by ascending bytes and falling damage.
std::vector<size_t> HullOf(const BitItem& item) {
  std::vector<size_t> order(item.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (item[a].bytes != item[b].bytes) return item[a].bytes < item[b].bytes;
    return item[a].damage < item[b].damage;
  });
  const auto slope = [&](size_t a, size_t b) {
    return (item[a].damage - item[b].damage) / static_cast<double>(item[b].bytes - item[a].bytes);
  };
  std::vector<size_t> hull;
  for (const size_t next : order) {
    // A choice that is larger and no better is never taken.
    if (!hull.empty() && item[next].damage >= item[hull.back()].damage) continue;
    while (hull.size() >= 2 &&
           slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), next))
      hull.pop_back();
    hull.push_back(next);
  }
  return hull;
}

class BitSpending {
 public:
  BitSpending(const std::vector<BitItem>& items, uint64_t budget)
      : items_(items), budget_(budget) {}

  Result<BitPlan> Solve() {
    SHARD_CHECK(Start());
    TakeSteps();
    SetCore();
    Search(0, 0, 0);
    BitPlan plan{best_, 0, 0, 0};
    Measure(plan);
    plan.bound = exhausted_ ? std::min(plan.damage, bound_) : plan.damage;
    return plan;
  }

 private:
  const BitChoice& At(size_t item, size_t choice) const { return items_[item][choice]; }

  void Measure(BitPlan& plan) const {
    plan.bytes = 0;
    plan.damage = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      plan.bytes += At(i, plan.chosen[i]).bytes;
      plan.damage += At(i, plan.chosen[i]).damage;
    }
  }

  // The smallest choice of every item, and the steps from there.
  Status Start() {
    for (size_t i = 0; i < items_.size(); ++i) {
      const std::vector<size_t> hull = HullOf(items_[i]);
      best_.push_back(hull[0]);
      used_ += At(i, hull[0]).bytes;
      for (size_t k = 1; k < hull.size(); ++k) {
        const BitChoice &from = At(i, hull[k - 1]), &to = At(i, hull[k]);
        steps_.push_back({i, hull[k], to.bytes - from.bytes, from.damage - to.damage});
      }
    }
    if (used_ > budget_)
      return Error{Code::kInvalidArgument,
                   Cat("budget: expected at least ", FormatCount(used_),
                       " bytes for the smallest types, found ", FormatCount(budget_), ", ",
                       FormatCount(used_ - budget_), " less")};
    // Steps of an item keep their order, because its hull is convex.
    std::stable_sort(steps_.begin(), steps_.end(), [](const BitStep& a, const BitStep& b) {
      return a.per_byte() > b.per_byte();
    });
    return Ok();
  }

  // Takes the steps that fit. The first step that does not fit sets the price of a byte.
  void TakeSteps() {
    std::vector<bool> blocked(items_.size());
    for (const BitStep& step : steps_) {
      if (blocked[step.item]) continue;
      if (step.bytes > budget_ - used_) {
        if (price_ == 0) price_ = step.per_byte();
        // Later steps of the item build on this one; steps of other items may still fit.
        blocked[step.item] = true;
        continue;
      }
      best_[step.item] = step.to;
      used_ += step.bytes;
    }
    BitPlan plan{best_, 0, 0, 0};
    Measure(plan);
    best_damage_ = plan.damage;
  }

  // The damage of a plan within the budget is at least bound_ plus the excess of its choices:
  // sum(damage) >= sum(damage + price x bytes) - price x budget.
  void SetCore() {
    bound_ = -price_ * static_cast<double>(budget_);
    for (const BitItem& item : items_) {
      double least = std::numeric_limits<double>::infinity();
      for (const BitChoice& choice : item)
        least = std::min(least, choice.damage + price_ * static_cast<double>(choice.bytes));
      bound_ += least;
      least_.push_back(least);
    }
    for (size_t i = 0; i < items_.size(); ++i) core_.push_back(CoreOf(i));
    // Items with only one choice left come first; then those whose second choice costs most,
    // because they end a search soonest.
    for (size_t i = 0; i < items_.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return SecondExcess(a) > SecondExcess(b); });
    // What the items after a position take at least, so that a search turns back as soon as no
    // choice of the rest can fit.
    smallest_.assign(items_.size() + 1, 0);
    for (size_t k = items_.size(); k-- > 0;) {
      uint64_t bytes = UINT64_MAX;
      for (const Candidate& each : core_[order_[k]])
        bytes = std::min(bytes, At(order_[k], each.choice).bytes);
      smallest_[k] = smallest_[k + 1] + bytes;
    }
    current_ = best_;
  }

  struct Candidate {
    size_t choice = 0;
    double excess = 0;
  };

  double ExcessOf(size_t item, size_t choice) const {
    const BitChoice& each = At(item, choice);
    return each.damage + price_ * static_cast<double>(each.bytes) - least_[item];
  }

  // The choices that a better plan may have, the cheapest first.
  std::vector<Candidate> CoreOf(size_t item) const {
    std::vector<Candidate> core;
    for (size_t c = 0; c < items_[item].size(); ++c) {
      const double excess = ExcessOf(item, c);
      if (c == best_[item] || bound_ + excess < best_damage_) core.push_back({c, excess});
    }
    std::stable_sort(core.begin(), core.end(),
                     [](const Candidate& a, const Candidate& b) { return a.excess < b.excess; });
    return core;
  }
  double SecondExcess(size_t item) const {
    return core_[item].size() < 2 ? std::numeric_limits<double>::infinity() : core_[item][1].excess;
  }

  // Depth first, over the items in order_.
  void Search(size_t place, uint64_t bytes, double excess) {
    if (exhausted_ || ++searched_ > kMaxBitSteps) {
      exhausted_ = true;
      return;
    }
    if (place == order_.size()) {
      BitPlan plan{current_, 0, 0, 0};
      Measure(plan);
      if (plan.damage >= best_damage_) return;
      best_damage_ = plan.damage;
      best_ = current_;
      return;
    }
    const size_t item = order_[place];
    for (const Candidate& each : core_[item]) {
      if (bound_ + excess + each.excess >= best_damage_) break;
      const uint64_t sum = bytes + At(item, each.choice).bytes;
      if (sum + smallest_[place + 1] > budget_) continue;
      current_[item] = each.choice;
      Search(place + 1, sum, excess + each.excess);
    }
  }

  const std::vector<BitItem>& items_;
  uint64_t budget_, used_ = 0;
  std::vector<BitStep> steps_;
  std::vector<size_t> best_, current_;
  double best_damage_ = 0, price_ = 0, bound_ = 0;
  std::vector<double> least_;
  std::vector<std::vector<Candidate>> core_;
  std::vector<size_t> order_;
  std::vector<uint64_t> smallest_;  // total bytes of the items from a position on
  uint64_t searched_ = 0;
  bool exhausted_ = false;
};

}  // namespace

Result<BitPlan> SpendBits(const std::vector<BitItem>& items, uint64_t budget) {
  return BitSpending(items, budget).Solve();
}

}  // namespace moepack
