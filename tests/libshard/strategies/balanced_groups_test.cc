#include "libshard/strategies/balanced_groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "libshard/strategies/split_mix.h"

namespace moepack {
namespace {

TEST(BalancedGroups, NoGroupGetsManyMoreThanItsPart) {
  // All prefer group 0, the first most of all.
  std::vector<double> values;
  for (int session = 0; session < 8; ++session) {
    values.push_back(20 - session);
    values.push_back(1);
  }
  EXPECT_EQ(MostSessions(8, 2), 6u);
  EXPECT_EQ(BalancedGroups(values, 2, 6), (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(BalancedGroups(values, 2, 8), (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 0, 1}))
      << "no group stays empty";
}

TEST(BalancedGroups, SwapsSessionsWhereThatHelps) {
  // Session 0 chooses first and takes the place that session 1 needs more together with 2.
  const std::vector<double> values = {9, 5, 8, 0, 7, 6};
  EXPECT_EQ(BalancedGroups(values, 2, 2), (std::vector<uint32_t>{0, 0, 1}));
}

// What all sessions have of their groups.
double SumOf(const std::vector<double>& values, const std::vector<uint32_t>& groups, size_t count) {
  double sum = 0;
  for (size_t session = 0; session < groups.size(); ++session)
    sum += values[session * count + groups[session]];
  return sum;
}

// Each prefers one of three groups, and most of them the first, which becomes full.
std::vector<double> ValuesOf(size_t sessions) {
  SplitMix64 random(7);
  std::vector<double> values;
  for (size_t session = 0; session < sessions; ++session) {
    for (size_t group = 0; group < 3; ++group)
      values.push_back((group == 0 ? 0.4 : 0.0) + static_cast<double>(random.Below(1000)) / 1000);
  }
  return values;
}

TEST(BalancedGroups, ManySessionsAreSwappedByGroupsAsWellAsByPairs) {
  const std::vector<double> all = ValuesOf(kMostComparedSessions + 1);
  const std::vector<double> pairs(all.begin(), all.end() - 3);  // one session fewer
  const size_t most = MostSessions(kMostComparedSessions, 3);
  const double by_pairs = SumOf(pairs, BalancedGroups(pairs, 3, most), 3);
  const double by_groups = SumOf(all, BalancedGroups(all, 3, most), 3);
  EXPECT_GE(by_groups, by_pairs);
  EXPECT_LE(by_groups, by_pairs * 1.002);
}

// Time that grew with the square of the sessions was minutes here.
TEST(BalancedGroups, AHundredThousandSessionsTakeSeconds) {
  const std::vector<double> values = ValuesOf(100000);
  const size_t most = MostSessions(100000, 3);
  const std::vector<uint32_t> groups = BalancedGroups(values, 3, most);
  for (uint32_t group = 0; group < 3; ++group)
    EXPECT_LE(static_cast<size_t>(std::count(groups.begin(), groups.end(), group)), most);
}

}  // namespace
}  // namespace moepack
