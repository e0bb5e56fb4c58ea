// The types of 256-value blocks, each with a block worked out by hand from its byte table.
#include <gmock/gmock.h>

#include "quant/tables/iq4.h"
#include "tests/quant/block_builder.h"

namespace quant {
namespace {

// A block has d = 1 (0x3c00) unless said otherwise; one group or two have a scale.

// Group 0 (scale 2, min 1) is values 0-15, group 9 (scale 1, min 0) values 144-159. Byte 16 holds
// values 0, 32, 64, 96; byte 64 values 144, 176, 208, 240.
TEST(SuperBlocks, Q2KIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected = {{144, 2.0f}};
  for (size_t i = 0; i < 16; ++i) expected[i] = -3;
  expected[0] = 3;
  ExpectValues(DecodeBlockOf("q2_K", {{0, 0x12},
                                      {9, 0x01},
                                      {16, 0xff},
                                      {64, 0b00'00'00'10},
                                      {81, 0x3c},
                                      {83, 0x42}}),  // dmin = 3
               0.0f, expected);
}

// Scale 0 is 33 (+1): low nibble of byte 96, upper bits 2 in bits 0-1 of byte 104. All others are
// s = 0 (-32). Value 0 is 3 | 4 - 4 = 3, value 1 is 0 - 4.
TEST(SuperBlocks, Q3KIsLaidOutAsInItsTable) {
  const std::vector<float> values =
      DecodeBlockOf("q3_K", {{0, 0x81}, {32, 0x83}, {96, 0x01}, {104, 0x02}, {109, 0x3c}});
  EXPECT_EQ(values[0], 3);          // q = 7
  EXPECT_EQ(values[1], -4);         // q = 0
  EXPECT_EQ(values[32], -32 * -4);  // q = 0, s = 0
  EXPECT_EQ(values[96], -32 * -2);  // two bits of byte 32: q = 2
  EXPECT_EQ(values[224], -32 * 0);  // third bit 7 of byte 0: q = 4
  EXPECT_EQ(values[255], -32 * -4);
}

// Scale 15 is the high nibble of byte 103 and bits 6-7 of byte 107: 0x21 = 33.
TEST(SuperBlocks, Q3KHasSixteenSixBitScales) {
  const std::vector<float> values = DecodeBlockOf("q3_K", {{103, 0x10}, {107, 0x80}, {109, 0x3c}});
  EXPECT_EQ(values[255], -4);
  EXPECT_EQ(values[127], 128);  // scale 7 is in the low half of the same byte
}

// Group 1 has scale 3, group 5 scale 16 | 2 and minimum 4; byte 16 holds values 0 and 32, byte 80
// values 128 and 160.
TEST(SuperBlocks, Q4KIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected = {{32, 3.0f * 9}};
  for (size_t i = 160; i < 192; ++i) expected[i] = -4;
  expected[160] = 18 * 7 - 4;
  ExpectValues(
      DecodeBlockOf("q4_K",
                    {{1, 0x3c}, {3, 0x3c}, {5, 0b01'000011}, {13, 0x42}, {16, 0x95}, {80, 0x71}}),
      0.0f, expected);
}

// As above with the fifth bit of value 32 (bit 1 of byte 16) and of value 160 (bit 5).
TEST(SuperBlocks, Q5KStoresFifthBitsSeparately) {
  std::map<size_t, float> expected = {{32, 3.0f * 25}};
  for (size_t i = 160; i < 192; ++i) expected[i] = -4;
  expected[160] = 18 * 23 - 4;
  ExpectValues(DecodeBlockOf("q5_K", {{1, 0x3c},
                                      {3, 0x3c},
                                      {5, 0b01'000011},
                                      {13, 0x42},
                                      {16, 0b0010'0010},
                                      {48, 0x95},
                                      {112, 0x71}}),
               0.0f, expected);
}

// Scale 0 is 2, scale 4 (values 64-79) -1. Byte 0 holds values 0 and 64, byte 128 their upper bits.
TEST(SuperBlocks, Q6KIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 0; i < 16; ++i) expected[i] = -64;
  for (size_t i = 64; i < 80; ++i) expected[i] = 32;
  expected[0] = 2 * (0x25 - 32);
  expected[64] = -1 * (0x3a - 32);
  ExpectValues(
      DecodeBlockOf("q6_K", {{0, 0xa5}, {128, 0b00'11'00'10}, {192, 2}, {196, 0xff}, {209, 0x3c}}),
      0.0f, expected);
}

// Scale 0 is 32 + 1: low bits 1, upper bits 2 in bits 0-1 of byte 2; scale 7 the same in the high
// half of byte 7 and bits 14-15. The others are 0 - 32.
TEST(SuperBlocks, Iq4XsIsLaidOutAsInItsTable) {
  const std::vector<float> values = DecodeBlockOf(
      "iq4_xs", {{1, 0x3c}, {2, 0x02}, {3, 0x80}, {4, 0x01}, {7, 0x10}, {8, 0xf8}, {135, 0x90}});
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[16], 113);
  EXPECT_EQ(values[1], -127);
  EXPECT_EQ(values[32], -32 * -127);
  EXPECT_EQ(values[255], 13);
  EXPECT_EQ(values[239], -127);
}

// q = 2 of value 128 is in byte 32; byte 31 holds values 31, 63, 95 and 127.
TEST(SuperBlocks, Tq20IsLaidOutAsInItsTable) {
  ExpectValues(DecodeBlockOf("tq2_0", {{31, 0b00'01'10'11}, {32, 2}, {65, 0x40}}),  // d = 2
               -2.0f, {{31, 4.0f}, {63, 2.0f}, {95, 0.0f}, {128, 2.0f}});
}

// The digits 2 1 0 2 1 are the number 196, and 196 * 256 / 243 is 206.5. In byte 51 the digits 2 0
// 1 2 and a 0 are 177, which gives 186.5.
TEST(SuperBlocks, Tq10IsLaidOutAsInItsTable) {
  ExpectValues(DecodeBlockOf("tq1_0", {{1, 207}, {33, 207}, {51, 187}, {53, 0x40}}), -2.0f,
               {{1, 2.0f},
                {33, 0.0f},
                {97, 2.0f},
                {129, 0.0f},
                {161, 2.0f},
                {177, 0.0f},
                {209, 2.0f},
                {225, 0.0f},
                {243, 2.0f},
                {251, 0.0f},
                {255, 2.0f}});
}

TEST(SuperBlocks, ATernaryBlockHoldsOnlyItsLargestMagnitudeAndZero) {
  std::vector<float> values(256), expected(256), decoded(256);
  for (size_t i = 0; i < 256; ++i) values[i] = (static_cast<float>(i) - 128) / 64;
  for (size_t i = 0; i < 256; ++i) expected[i] = i <= 64 ? -2.0f : i < 192 ? 0.0f : 2.0f;
  for (const char* name : {"tq1_0", "tq2_0"}) {
    const Format* format = FindFormat(name);
    std::vector<std::byte> block(format->block_bytes);
    format->encode(values, {}, block);
    format->decode(block, decoded);
    EXPECT_EQ(decoded, expected) << name;
  }
}

// Point 0 is -1 eight times, point 2047 is 1 eight times. Group 0 has the scale 1 and is moved up;
// group 7 has the scale 15 and is moved down.
TEST(SuperBlocks, Iq1SIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 0; i < 8; ++i) expected[i] = 1.125f;
  for (size_t i = 224; i < 248; ++i) expected[i] = 15 * -1.125f;
  for (size_t i = 248; i < 256; ++i) expected[i] = 15 * 0.875f;
  ExpectValues(
      DecodeBlockOf("iq1_s", {{1, 0x3c}, {2, 0xff}, {33, 0xff}, {34, 0b111}, {49, 0b1'111'111'0}}),
      -0.875f, expected);
}

// As above; the second run of group 0 is moved down, and its scale is 3. d = 1 is 0 0 c 3 in the
// upper halves of bytes 49, 51, 53 and 55.
TEST(SuperBlocks, Iq1MIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 0; i < 8; ++i) expected[i] = 3 * 1.125f;
  for (size_t i = 8; i < 16; ++i) expected[i] = 3 * 0.875f;
  for (size_t i = 240; i < 256; ++i) expected[i] = 15 * -0.875f;
  ExpectValues(
      DecodeBlockOf(
          "iq1_m",
          {{0, 0xff}, {1, 0xff}, {32, 0b1'111'0'111}, {48, 1}, {53, 0xc0}, {55, 0x30 | 0b111'0}}),
      -0.875f, expected);
}

// Each group has its own lowest level, so that all group scales are the same power of two.
void ExpectExact(const char* name, size_t group_values, const std::vector<float>& levels) {
  std::vector<float> values(256), decoded(256);
  for (size_t i = 0; i < 256; ++i) {
    const size_t level = i % group_values == 0 ? 0 : i * 7 % levels.size();
    values[i] = 0.25f * levels[level];
  }
  const Format* format = FindFormat(name);
  std::vector<std::byte> block(format->block_bytes);
  format->encode(values, {}, block);
  format->decode(block, decoded);
  EXPECT_EQ(decoded, values) << name;
}

TEST(SuperBlocks, KeepValuesOnTheirGridExactly) {
  std::vector<float> levels(64);
  for (size_t q = 0; q < 64; ++q) levels[q] = static_cast<float>(q) - 32;
  ExpectExact("q6_K", 16, levels);
  ExpectExact("q3_K", 16, {-4, -3, -2, -1, 0, 1, 2, 3});
  ExpectExact("iq4_xs", 32, {kIq4Codes.begin(), kIq4Codes.end()});
}

TEST(SuperBlocks, Q6KEncodesZerosAsZeroBytes) {
  EXPECT_EQ(EncodeBlockOf("q6_K", std::vector<float>(256)), std::vector<int>(210));
}

}  // namespace
}  // namespace quant
