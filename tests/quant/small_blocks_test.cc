// The types of 32-value blocks, each with a block worked out by hand from its byte table.
#include <gmock/gmock.h>

#include "quant/tables/iq4.h"
#include "tests/quant/block_builder.h"

namespace quant {
namespace {

using testing::ElementsAreArray;

// -8 ... 7 in steps of one, then the same again, so that both halves of each byte are known.
std::vector<float> Ramp(float scale, float offset) {
  std::vector<float> values(32);
  for (size_t i = 0; i < 32; ++i) values[i] = scale * static_cast<float>(i % 16) + offset;
  return values;
}

// d = 0.5 (0x3800); byte 2 holds values 0 and 16, byte 17 values 15 and 31.
TEST(SmallBlocks, Q4_0StoresAScaleAndNibbles) {
  ExpectValues(DecodeBlockOf("q4_0", {{1, 0x38}, {2, 0x81}, {17, 0xf0}}), -4.0f,
               {{0, -3.5f}, {16, 0.0f}, {31, 3.5f}});
  std::vector<int> expected = {0x00, 0x38};
  for (int q = 0; q < 16; ++q) expected.push_back(q | q << 4);
  EXPECT_THAT(EncodeBlockOf("q4_0", Ramp(0.5f, -4)), ElementsAreArray(expected));
}

// d = 2 (0x4000), m = -1 (0xbc00).
TEST(SmallBlocks, Q4_1StoresAScaleAMinimumAndNibbles) {
  ExpectValues(DecodeBlockOf("q4_1", {{1, 0x40}, {3, 0xbc}, {4, 0x21}, {19, 0xf0}}), -1.0f,
               {{0, 1.0f}, {16, 3.0f}, {31, 29.0f}});
  std::vector<int> expected = {0x00, 0x40, 0x00, 0xbc};
  for (int q = 0; q < 16; ++q) expected.push_back(q | q << 4);
  EXPECT_THAT(EncodeBlockOf("q4_1", Ramp(2, -1)), ElementsAreArray(expected));
}

// d = 1 (0x3c00); byte 2 has the fifth bits of values 0-7, byte 4 those of 16-23.
TEST(SmallBlocks, Q5_0StoresFifthBitsSeparately) {
  ExpectValues(DecodeBlockOf("q5_0", {{1, 0x3c}, {2, 0x02}, {4, 0x01}, {6, 0x43}, {7, 0x05}}),
               -16.0f, {{0, -13.0f}, {16, 4.0f}, {1, 5.0f}});
  std::vector<float> ramp(32);
  for (size_t i = 0; i < 32; ++i) ramp[i] = static_cast<float>(i) - 16;
  std::vector<int> expected = {0x00, 0x3c, 0, 0, 0xff, 0xff};
  for (int q = 0; q < 16; ++q) expected.push_back(q | q << 4);
  EXPECT_THAT(EncodeBlockOf("q5_0", ramp), ElementsAreArray(expected));
}

// d = 0.25 (0x3400), m = 3 (0x4200).
TEST(SmallBlocks, Q5_1StoresAScaleAMinimumAndFifthBits) {
  ExpectValues(DecodeBlockOf("q5_1", {{1, 0x34}, {3, 0x42}, {7, 0x80}, {8, 0x01}, {23, 0x20}}),
               3.0f, {{0, 3.25f}, {31, 7.5f}});
  std::vector<float> ramp(32);
  for (size_t i = 0; i < 32; ++i) ramp[i] = static_cast<float>(i) * 0.25f + 3;
  std::vector<int> expected = {0x00, 0x34, 0x00, 0x42, 0, 0, 0xff, 0xff};
  for (int q = 0; q < 16; ++q) expected.push_back(q | q << 4);
  EXPECT_THAT(EncodeBlockOf("q5_1", ramp), ElementsAreArray(expected));
}

// The largest value, 127, gets 127; halves are rounded away from zero.
TEST(SmallBlocks, Q8_0StoresAScaleAndSignedBytes) {
  ExpectValues(DecodeBlockOf("q8_0", {{1, 0x3c}, {2, 0x80}, {33, 0x7f}}), 0.0f,
               {{0, -128.0f}, {31, 127.0f}});
  std::vector<float> values(32);
  values[0] = 127;
  values[1] = 0.5f;
  values[2] = -2.5f;
  values[31] = -126.4f;
  std::vector<int> expected(34);
  expected[1] = 0x3c;
  expected[2] = 127;
  expected[3] = 1;
  expected[4] = 256 - 3;
  expected[33] = 256 - 126;
  EXPECT_THAT(EncodeBlockOf("q8_0", values), ElementsAreArray(expected));
}

// d = 1; code 0 is -127, 8 is 1, 15 is 113.
TEST(SmallBlocks, Iq4NlStoresAScaleAndCodes) {
  ExpectValues(DecodeBlockOf("iq4_nl", {{1, 0x3c}, {2, 0xf8}, {17, 0x90}}), -127.0f,
               {{0, 1.0f}, {16, 113.0f}, {31, 13.0f}});
  std::vector<float> codes(32);
  for (size_t i = 0; i < 32; ++i) codes[i] = kIq4Codes[i % 16];
  std::vector<int> expected = {0x00, 0x3c};
  for (int q = 0; q < 16; ++q) expected.push_back(q | q << 4);
  EXPECT_THAT(EncodeBlockOf("iq4_nl", codes), ElementsAreArray(expected));
}

TEST(SmallBlocks, TheNearestIq4CodeIsTheHigherOneInATie) {
  EXPECT_EQ(NearestIq4Code(-200), 0);
  EXPECT_EQ(NearestIq4Code(200), 15);
  EXPECT_EQ(NearestIq4Code(7), 9);  // 1 and 13
  EXPECT_EQ(NearestIq4Code(6.99f), 8);
  EXPECT_EQ(NearestIq4Code(0), 8);
  EXPECT_EQ(NearestIq4Code(std::nanf("")), 15);
  for (uint8_t code = 0; code < 16; ++code) EXPECT_EQ(NearestIq4Code(kIq4Codes[code]), code);
}

// e = 128: scale 2. Code 7 is 6, 15 is -6, 8 is 0.
TEST(SmallBlocks, Mxfp4StoresAnExponentAndTinyFloats) {
  ExpectValues(DecodeBlockOf("mxfp4", {{0, 128}, {1, 0xf7}, {16, 0x81}}), 0.0f,
               {{0, 12.0f}, {16, -12.0f}, {15, 1.0f}});
  const float codes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  std::vector<float> values(32);
  for (size_t i = 0; i < 32; ++i) values[i] = 2 * codes[i % 16];
  std::vector<int> expected = {128};
  for (int q = 0; q < 16; ++q) expected.push_back(q == 8 ? 0 : q | q << 4);  // -0 is stored as 0
  EXPECT_THAT(EncodeBlockOf("mxfp4", values), ElementsAreArray(expected));
}

// 2^k gets the exponent k - 2, and so do a few floats below it, for which the float logarithm is k.
TEST(SmallBlocks, Mxfp4ComputesTheLogarithmInFloat) {
  const auto exponent = [](float largest) {
    std::vector<float> values(32);
    values[3] = largest;
    return EncodeBlockOf("mxfp4", values)[0];
  };
  EXPECT_EQ(exponent(4), 127);
  EXPECT_EQ(exponent(7.9f), 127);
  EXPECT_EQ(exponent(std::nextafter(4.0f, 0.0f)), 126);
  EXPECT_EQ(exponent(std::nextafter(8.0f, 0.0f)), 128);
  EXPECT_EQ(exponent(std::nextafter(std::nextafter(8.0f, 0.0f), 0.0f)), 127);
  EXPECT_EQ(exponent(0), 0);
  EXPECT_EQ(exponent(0x1p-125f), 0);
  EXPECT_EQ(exponent(0x1p-126f), 255);
  EXPECT_EQ(exponent(std::numeric_limits<float>::max()), 253);
}

// Group 1 has scale 1, group 2 the smallest one, 2^-9, and group 3 the code that is NaN elsewhere.
TEST(SmallBlocks, Nvfp4IsLaidOutAsInItsTable) {
  ExpectValues(
      DecodeBlockOf("nvfp4", {{1, 0x38}, {2, 0x01}, {3, 0x7f}, {12, 0xf7}, {27, 0x21}, {35, 0x77}}),
      0.0f, {{16, 6.0f}, {24, -6.0f}, {39, 0x1p-10f}, {47, 0x1p-9f}});
}

TEST(SmallBlocks, Nvfp4IgnoresTheSignOfAScale) {
  EXPECT_EQ(DecodeBlockOf("nvfp4", {{0, 0xb8}, {4, 0x02}})[0], 1);
  EXPECT_EQ(DecodeBlockOf("nvfp4", {{0, 0xff}, {4, 0x02}})[0], 480);
}

// A sixth of the largest magnitude, halves up; 256 would become the largest scale of all.
TEST(SmallBlocks, Nvfp4RoundsTheScaleUp) {
  const auto scale = [](float sixth) {
    std::vector<float> values(64);
    values[3] = -6 * sixth;
    return EncodeBlockOf("nvfp4", values)[0];
  };
  EXPECT_EQ(scale(0), 0);
  EXPECT_EQ(scale(0x1.ffp-11f), 0);
  EXPECT_EQ(scale(0x1p-10f), 1);
  EXPECT_EQ(scale(0x1.fp-7f), 7);
  EXPECT_EQ(scale(0x1p-6f), 8);
  EXPECT_EQ(scale(1.0624f), 0x38);
  EXPECT_EQ(scale(1.0625f), 0x39);
  EXPECT_EQ(scale(200), 0x75);
  EXPECT_EQ(scale(247), 0x77);
  EXPECT_EQ(scale(248), 0x7e);
  EXPECT_EQ(scale(448), 0x7e);
  EXPECT_EQ(scale(1e30f), 0x7e);
}

// As in ggml: the differences to a value that is too large for any code are all equal, and the
// first code is 0.
TEST(SmallBlocks, Nvfp4LosesValuesFarBeyondItsLargestScale) {
  const auto first_code = [](float value) {
    std::vector<float> values(64);
    values[0] = value;
    return EncodeBlockOf("nvfp4", values)[4] & 15;
  };
  EXPECT_EQ(first_code(2688), 7);
  EXPECT_EQ(first_code(-1e6f), 15);
  EXPECT_EQ(first_code(1e12f), 0);
}

// ggml's sign: 0 / -8 is -0, which F16 keeps.
TEST(SmallBlocks, ABlockOfZerosHasAScaleOfMinusZero) {
  const std::vector<float> zeros(32);
  EXPECT_EQ(EncodeBlockOf("q4_0", zeros)[1], 0x80);
  EXPECT_EQ(EncodeBlockOf("q5_0", zeros)[1], 0x80);
  EXPECT_EQ(EncodeBlockOf("q8_0", zeros)[1], 0);
  EXPECT_EQ(EncodeBlockOf("iq4_nl", zeros)[1], 0);
}

}  // namespace
}  // namespace quant
