#include "quant/half.h"

#include <gtest/gtest.h>

namespace quant {
namespace {

constexpr float kHalfInfinity = std::numeric_limits<float>::infinity();

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Half, RoundTripsEveryHalfThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = HalfToFloat(half);
    if (std::isnan(value)) {
      EXPECT_EQ(FloatToHalf(value), (half & 0x8000) | 0x7e00);
    } else {
      EXPECT_EQ(FloatToHalf(value), half) << bits;
    }
  }
}

TEST(Half, DecodesAsIeeeSpecifies) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x3555), 0.333251953125f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x8001), -0x1p-24f);
  EXPECT_EQ(HalfToFloat(0xfc00), -kHalfInfinity);
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
}

// Between each two neighbouring halves: just below the middle, the middle, just above.
TEST(Half, RoundsToNearestAndTiesToEven) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float middle = (HalfToFloat(half) + HalfToFloat(half + 1)) / 2;
    const auto even = static_cast<uint16_t>(half + (half & 1));
    EXPECT_EQ(FloatToHalf(middle), even);
    EXPECT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), half);
    EXPECT_EQ(FloatToHalf(-std::nextafter(middle, kHalfInfinity)), (half + 1) | 0x8000);
  }
}

TEST(Half, OverflowsToInfinityFromTheHalfwayPoint) {
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-kHalfInfinity), 0xfc00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0);  // a tie with zero
  EXPECT_EQ(FloatToHalf(-0x1p-149f), 0x8000);
}

TEST(Half, KeepsTheSignOfNanInNumbersButNotInScales) {
  EXPECT_EQ(FloatToHalf(FromBits(0x7f800001)), 0x7e00);
  EXPECT_EQ(FloatToHalf(FromBits(0xffc12345)), 0xfe00);
  EXPECT_EQ(ScaleToHalf(FromBits(0x7fc00000)), 0xfe00);
  EXPECT_EQ(ScaleToHalf(FromBits(0xffc00000)), 0xfe00);
  EXPECT_EQ(ScaleToHalf(-0.0f), 0x8000);
}

TEST(Bfloat16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(FloatToBfloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBfloat16(FromBits(0x3f808000)), 0x3f80);
  EXPECT_EQ(FloatToBfloat16(FromBits(0x3f808001)), 0x3f81);
  EXPECT_EQ(FloatToBfloat16(FromBits(0x3f818000)), 0x3f82);
  EXPECT_EQ(FloatToBfloat16(FromBits(0x7f7fffff)), 0x7f80);
  EXPECT_EQ(FloatToBfloat16(FromBits(0x00000001)), 0x0000);
  EXPECT_EQ(FloatToBfloat16(FromBits(0xff800000)), 0xff80);
}

TEST(Bfloat16, NeverTurnsNanIntoInfinity) {
  EXPECT_EQ(FloatToBfloat16(FromBits(0x7f800001)), 0x7fc0);
  EXPECT_EQ(FloatToBfloat16(FromBits(0xffffffff)), 0xffff);
  EXPECT_TRUE(std::isnan(Bfloat16ToFloat(0x7fc0)));
}

TEST(Bfloat16, RoundTripsEveryValueThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Bfloat16ToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(FloatToBfloat16(value), bits);
    }
  }
}

// The corners of the tables in the OCP 8-bit floating point specification.
TEST(Float8, DecodesAsTheSpecificationSays) {
  EXPECT_EQ(Float8E4M3ToFloat(0x00), 0.0f);
  EXPECT_EQ(Float8E4M3ToFloat(0x01), 0x1p-9f);
  EXPECT_EQ(Float8E4M3ToFloat(0x07), 0.875f * 0x1p-6f);
  EXPECT_EQ(Float8E4M3ToFloat(0x08), 0x1p-6f);
  EXPECT_EQ(Float8E4M3ToFloat(0x38), 1.0f);
  EXPECT_EQ(Float8E4M3ToFloat(0x7e), 448.0f);
  EXPECT_EQ(Float8E4M3ToFloat(0xfe), -448.0f);
  EXPECT_TRUE(std::isnan(Float8E4M3ToFloat(0x7f)));
  EXPECT_TRUE(std::isnan(Float8E4M3ToFloat(0xff)));
  EXPECT_EQ(Float8E5M2ToFloat(0x01), 0x1p-16f);
  EXPECT_EQ(Float8E5M2ToFloat(0x3c), 1.0f);
  EXPECT_EQ(Float8E5M2ToFloat(0x7b), 57344.0f);
  EXPECT_EQ(Float8E5M2ToFloat(0xfc), -kHalfInfinity);
  EXPECT_TRUE(std::isnan(Float8E5M2ToFloat(0x7d)));
}

TEST(E8M0, IsHalvedExactly) {
  for (int exponent = 0; exponent < 256; ++exponent) {
    EXPECT_EQ(HalfOfE8M0(static_cast<uint8_t>(exponent)), std::ldexp(1.0f, exponent - 128));
  }
}

}  // namespace
}  // namespace quant
