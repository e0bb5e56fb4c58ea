#include "libshard/base/spread_order.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(SpreadOrder, HasEveryPlaceOnce) {
  for (const size_t count : {0, 1, 2, 3, 1000}) {
    std::vector<size_t> order = SpreadOrder(count);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(order[i], i);
    EXPECT_EQ(order.size(), count);
  }
}

TEST(SpreadOrder, EveryBeginningIsSpreadOverTheWholeList) {
  const std::vector<size_t> order = SpreadOrder(3000);
  for (const size_t taken : {9, 30, 100, 1000}) {
    size_t of_third[3] = {};
    for (size_t i = 0; i < taken; ++i) ++of_third[order[i] / 1000];
    for (const size_t found : of_third)
      EXPECT_NEAR(static_cast<double>(found), static_cast<double>(taken) / 3, 3) << taken;
  }
}

TEST(SpreadOrder, KindsThatTakeTurnsAreTakenAlike) {
  const std::vector<size_t> order = SpreadOrder(3000);
  for (const size_t period : {2, 3, 5, 8, 10}) {
    std::vector<size_t> of_kind(period);
    for (size_t i = 0; i < 1000; ++i) ++of_kind[order[i] % period];
    for (const size_t found : of_kind)
      EXPECT_NEAR(static_cast<double>(found), 1000.0 / static_cast<double>(period), 10) << period;
  }
}

}  // namespace
}  // namespace moepack
