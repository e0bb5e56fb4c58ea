#include "quant/rounding.h"

#include <gtest/gtest.h>

namespace quant {
namespace {

constexpr float kRoundingInfinity = std::numeric_limits<float>::infinity();
constexpr float kRoundingNan = std::numeric_limits<float>::quiet_NaN();

TEST(NearestInt, RoundsHalvesToEven) {
  EXPECT_EQ(NearestInt(0.5f), 0);
  EXPECT_EQ(NearestInt(1.5f), 2);
  EXPECT_EQ(NearestInt(-0.5f), 0);
  EXPECT_EQ(NearestInt(-2.5f), -2);
  EXPECT_EQ(NearestInt(2.4999998f), 2);
  EXPECT_EQ(NearestInt(-0.0f), 0);
  EXPECT_EQ(NearestInt(4194303.0f), 4194303);
}

// Overflowing searches end here; the bytes of huge rows depend on it.
TEST(NearestInt, GivesItsLowestValueForInfinityAndZeroForNan) {
  EXPECT_EQ(NearestInt(kRoundingInfinity), -4194304);
  EXPECT_EQ(NearestInt(-kRoundingInfinity), -4194304);
  EXPECT_EQ(NearestInt(kRoundingNan), 0);
  EXPECT_EQ(NearestInt(-kRoundingNan), 0);
}

TEST(Truncate, DropsTheFraction) {
  EXPECT_EQ(Truncate(2.9f), 2);
  EXPECT_EQ(Truncate(-2.9f), -2);
  EXPECT_EQ(Truncate(-0.9f), 0);
  EXPECT_EQ(Truncate(-0x1p31f), std::numeric_limits<int>::min());
  EXPECT_EQ(Truncate(2147483520.0f), 2147483520);
}

TEST(Truncate, GivesTheSmallestIntForValuesOutOfRange) {
  for (const float value :
       {0x1p31f, 1e38f, -1e38f, kRoundingInfinity, -kRoundingInfinity, kRoundingNan}) {
    EXPECT_EQ(Truncate(value), std::numeric_limits<int>::min()) << value;
  }
}

}  // namespace
}  // namespace quant
