// The types whose blocks hold grid points, each with a block worked out by hand from its byte table
// and the table of points.
#include <gtest/gtest.h>

#include "tests/quant/block_builder.h"

namespace quant {
namespace {

// A block has d = 1 (0x3c00); groups that are not mentioned have scale 0, point 0 and no signs.

// Point 1 is 2 = 0b10: the highest level, then seven of the lowest. Signs: value 0, and value 7 to
// make their number even. Scale 1 is (1 + 1/2) / 4.
TEST(GridBlocks, Iq2XxsIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 0; i < 32; ++i) expected[i] = 0.375f * 8;
  expected[0] = -0.375f * 43;
  expected[7] = -0.375f * 8;
  // Group 7, points 3: number 1 without a sign.
  expected[248] = 0.125f * 43;
  ExpectValues(DecodeBlockOf("iq2_xxs", {{1, 0x3c}, {2, 1}, {6, 0x01}, {9, 0x10}, {61, 1}}),
               0.125f * 8, expected);
}

// Point 257 is 0x4009: levels 1 2 0 0 0 0 0 1. Signs 0b1000001 are values 0 and 6. Scale 1 of group
// 0, scale 15 of group 15.
TEST(GridBlocks, Iq2XsIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 0; i < 16; ++i) expected[i] = 0.375f * 8;
  for (size_t i = 240; i < 256; ++i) expected[i] = 15.5f / 4 * 8;
  expected[0] = -0.375f * 25;
  expected[1] = 0.375f * 43;
  expected[6] = -0.375f * 8;
  expected[7] = 0.375f * 25;
  ExpectValues(DecodeBlockOf("iq2_xs", {{1, 0x3c}, {2, 0x01}, {3, 0x83}, {66, 0x01}, {73, 0xf0}}),
               0.125f * 8, expected);
}

// Point 513 is 0x4141: levels 1 0 0 1 1 0 0 1; its upper bits are 2 in bits 2-3 of byte 66.
TEST(GridBlocks, Iq2SIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 0; i < 16; ++i) expected[i] = 8;
  for (const size_t i : {8, 11, 12}) expected[i] = 25;
  expected[15] = -25;
  for (size_t i = 16; i < 256; ++i) expected[i] = 1;
  // Scale 0 is 7: 7.5 / 4 = 1.875.
  for (size_t i = 0; i < 16; ++i) expected[i] *= 1.875f;
  ExpectValues(DecodeBlockOf("iq2_s", {{1, 0x3c}, {3, 0x01}, {35, 0x80}, {66, 0x08}, {74, 0x07}}),
               0.0f, expected);
}

// Point 3 is 9 = 0b001001: levels 1 1 0 0, which mean 12 12 4 4. Signs of the first eight are
// values 4 and 7; scale 2 is (2 + 1/2) / 2.
TEST(GridBlocks, Iq3XxsIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 0; i < 32; ++i) expected[i] = 1.25f * 4;
  expected[4] = -1.25f * 12;
  expected[5] = 1.25f * 12;
  expected[7] = -1.25f * 4;
  ExpectValues(DecodeBlockOf("iq3_xxs", {{1, 0x3c}, {3, 3}, {66, 0x10}, {69, 0x20}}), 0.25f * 4,
               expected);
}

// Point 259 is 0x521: levels 1 4 4 2, which mean 3 9 9 5; its ninth bit is bit 1 of byte 67. Scale
// 1 of group 1 is 3.
TEST(GridBlocks, Iq3SIsLaidOutAsInItsTable) {
  std::map<size_t, float> expected;
  for (size_t i = 32; i < 64; ++i) expected[i] = 3;
  expected[36] = 9;
  expected[37] = 27;
  expected[38] = -27;
  expected[39] = 15;
  ExpectValues(DecodeBlockOf("iq3_s", {{1, 0x3c}, {11, 0x03}, {67, 0x02}, {78, 0x40}, {106, 0x10}}),
               1.0f, expected);
}

TEST(GridBlocks, EncodeZerosAsZeroBytes) {
  for (const char* name : {"iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s"}) {
    const std::vector<int> block = EncodeBlockOf(name, std::vector<float>(256));
    EXPECT_EQ(block, std::vector<int>(block.size())) << name;
  }
}

// An odd number of negative values cannot be stored: the cheapest one, value 2, loses its sign.
TEST(GridBlocks, FlipTheCheapestSignToMakeTheirNumberEven) {
  std::vector<float> values(256, 1.0f), decoded(256);
  for (const size_t i : {0, 1, 2}) values[i] = -1;
  values[2] = -0.25f;
  for (const char* name : {"iq2_xxs", "iq2_xs", "iq3_xxs"}) {
    const Format* format = FindFormat(name);
    std::vector<std::byte> block(format->block_bytes);
    format->encode(values, {}, block);
    format->decode(block, decoded);
    for (size_t i = 0; i < decoded.size(); ++i) EXPECT_EQ(decoded[i] < 0, i < 2) << name << i;
  }
}

}  // namespace
}  // namespace quant
