#include "libshard/strategies/balanced_groups.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace moepack
