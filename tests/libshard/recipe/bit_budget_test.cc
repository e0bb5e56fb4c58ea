#include "libshard/recipe/bit_budget.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

namespace moepack {
namespace {

using ::testing::ElementsAre;

BitPlan MustSpend(const std::vector<BitItem>& items, uint64_t budget) {
  auto plan = SpendBits(items, budget);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  return plan ? *std::move(plan) : BitPlan{};
}

// The least damage within the budget; none if nothing fits.
std::optional<double> LeastDamage(const std::vector<BitItem>& items, uint64_t budget,
                                  size_t item = 0) {
  if (item == items.size()) return 0;
  std::optional<double> least;
  for (const BitChoice& choice : items[item]) {
    if (choice.bytes > budget) continue;
    const auto rest = LeastDamage(items, budget - choice.bytes, item + 1);
    if (rest && (!least || *rest + choice.damage < *least)) least = *rest + choice.damage;
  }
  return least;
}

TEST(BitBudget, SpendsBytesWhereTheySaveMost) {
  // Four more bytes for the first save 9, for the second 3.
  const std::vector<BitItem> items = {{{4, 10}, {8, 1}}, {{4, 4}, {8, 1}}};
  EXPECT_THAT(MustSpend(items, 8).chosen, ElementsAre(0, 0));
  EXPECT_THAT(MustSpend(items, 15).chosen, ElementsAre(1, 0));
  EXPECT_THAT(MustSpend(items, 16).chosen, ElementsAre(1, 1));
  const BitPlan plan = MustSpend(items, 13);
  EXPECT_EQ(plan.bytes, 12u);
  EXPECT_EQ(plan.damage, 5);
  EXPECT_EQ(plan.bound, 5);
}

// A greedy choice by damage per byte takes the first and has no room left for the second, which
// saves more.
TEST(BitBudget, FindsAPlanWithoutTheBestStepPerByte) {
  const std::vector<BitItem> items = {{{0, 10}, {1, 8}}, {{0, 20}, {10, 2}}};
  const BitPlan plan = MustSpend(items, 10);
  EXPECT_THAT(plan.chosen, ElementsAre(0, 1));
  EXPECT_EQ(plan.damage, 12);
}

// The middle choice is above the line between the others, but nothing else fits.
TEST(BitBudget, TakesAChoiceOffTheHullIfOnlyItFits) {
  const std::vector<BitItem> items = {{{0, 10}, {5, 9}, {10, 0}}};
  EXPECT_THAT(MustSpend(items, 7).chosen, ElementsAre(1));
  EXPECT_THAT(MustSpend(items, 10).chosen, ElementsAre(2));
}

TEST(BitBudget, NeverTakesALargerAndWorseChoice) {
  const std::vector<BitItem> items = {{{8, 5}, {4, 1}, {4, 2}, {16, 1}}};
  EXPECT_THAT(MustSpend(items, 100).chosen, ElementsAre(1));
}

TEST(BitBudget, TiesGoToTheLowerIndex) {
  const std::vector<BitItem> items(3, BitItem{{0, 2}, {1, 1}, {1, 1}});
  EXPECT_THAT(MustSpend(items, 2).chosen, ElementsAre(1, 1, 0));
}

TEST(BitBudget, RefusesATooSmallBudgetAndSaysWhatIsMissing) {
  const auto plan = SpendBits({{{600, 1}, {900, 0}}, {{1000, 1}}}, 1500);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  EXPECT_EQ(plan.error().message,
            "budget: expected at least 1,600 bytes for the smallest types, found 1,500, 100 less");
}

TEST(BitBudget, AcceptsNoItems) { EXPECT_EQ(MustSpend({}, 0).damage, 0); }

class SmallNumbers {
 public:
  explicit SmallNumbers(uint64_t seed) : state_(seed) {}
  uint32_t Below(uint32_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % limit);
  }

 private:
  uint64_t state_;
};

std::vector<BitItem> RandomItems(SmallNumbers& numbers, size_t count) {
  std::vector<BitItem> items(count);
  for (BitItem& item : items) {
    const uint32_t choices = 1 + numbers.Below(5);
    for (uint32_t c = 0; c < choices; ++c)
      item.push_back({1 + numbers.Below(40), static_cast<double>(numbers.Below(1000))});
  }
  return items;
}

TEST(BitBudget, SmallCasesAreSolvedExactly) {
  SmallNumbers numbers(1);
  for (int round = 0; round < 500; ++round) {
    const auto items = RandomItems(numbers, 1 + numbers.Below(6));
    const uint64_t budget = numbers.Below(200);
    const std::optional<double> least = LeastDamage(items, budget);
    const auto plan = SpendBits(items, budget);
    ASSERT_EQ(plan.has_value(), least.has_value()) << "round " << round;
    if (!least) continue;
    ASSERT_EQ(plan->damage, *least) << "round " << round;
    ASSERT_EQ(plan->bound, *least) << "round " << round;
    ASSERT_LE(plan->bytes, budget);
  }
}

// 94 layers x 3 parts and ten types: the plan is within a hundredth of the bound.
TEST(BitBudget, LargeCasesComeCloseToTheBound) {
  std::vector<BitItem> items;
  SmallNumbers numbers(2);
  constexpr double kBits[] = {2.0625, 2.5625, 3.0625, 3.4375, 4.25, 4.5, 5.5, 6.5625, 8.5, 16};
  uint64_t least = 0, most = 0;
  for (int i = 0; i < 282; ++i) {
    const double sensitivity = 1 + numbers.Below(1000);
    const uint64_t weights = 100'663'296 + 256 * numbers.Below(1000);
    BitItem item;
    for (const double bits : kBits) {
      // The error of a quantizer falls to a quarter with every bit.
      double damage = sensitivity;
      for (double each = 2; each <= bits; each += 0.5) damage /= 2;
      item.push_back({static_cast<uint64_t>(static_cast<double>(weights) * bits / 8), damage});
    }
    least += item.front().bytes;
    most += item.back().bytes;
    items.push_back(std::move(item));
  }
  for (const uint64_t share : {5, 20, 40, 70}) {
    const uint64_t budget = least + (most - least) * share / 100;
    const BitPlan plan = MustSpend(items, budget);
    EXPECT_LE(plan.bytes, budget);
    EXPECT_GE(plan.damage, plan.bound);
    EXPECT_LE(plan.damage - plan.bound, 0.01 * plan.damage) << share;
  }
}

}  // namespace
}  // namespace moepack
