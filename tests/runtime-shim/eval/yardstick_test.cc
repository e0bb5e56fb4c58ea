#include "runtime-shim/eval/yardstick.h"

#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

TEST(Yardstick, NamesTheNearestType) {
  EXPECT_EQ(Yardstick(0.0014), "about a Q8_0");
  EXPECT_EQ(Yardstick(0.084), "about a Q3_K_M");
  EXPECT_EQ(Yardstick(0.04), "about a Q4_K_M");  // the middle of 0.028 and 0.084 is 0.0485
  EXPECT_EQ(Yardstick(0.05), "about a Q3_K_M");
  EXPECT_EQ(Yardstick(1.5), "about an IQ1_M");
}

TEST(Yardstick, SaysWhenAValueIsBeyondItsRange) {
  EXPECT_EQ(Yardstick(0), "less than a Q8_0");
  EXPECT_EQ(Yardstick(0.0006), "less than a Q8_0");
  EXPECT_EQ(Yardstick(2.3), "worse than an IQ1_M");
}

}  // namespace
}  // namespace moepack::runtime
