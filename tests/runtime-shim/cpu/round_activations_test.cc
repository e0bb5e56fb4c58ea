#include "runtime-shim/cpu/round_activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace moepack::runtime {
namespace {

std::vector<float> Row(size_t count) {
  std::vector<float> row(count);
  for (size_t i = 0; i < count; ++i) row[i] = std::sin(static_cast<float>(i)) * 3;
  return row;
}

TEST(RoundActivations, LeavesInputsOfPlainFloatsAlone) {
  std::vector<float> row = Row(64);
  RoundAsLlamaCpp(quant::FindFormat("f32"), row);
  EXPECT_EQ(row, Row(64));
}

TEST(RoundActivations, RoundsTo255StepsForSuperBlocks) {
  std::vector<float> row = Row(512);
  row[300] = -254;  // the largest of its block: steps of 2
  RoundAsLlamaCpp(quant::FindFormat("q4_K"), row);
  EXPECT_FLOAT_EQ(row[300], -254);
  for (size_t i = 256; i < 512; ++i) EXPECT_FLOAT_EQ(row[i], 2 * std::nearbyint(row[i] / 2)) << i;
  for (size_t i = 0; i < 256; ++i) EXPECT_NEAR(row[i], Row(512)[i], 3.0 / 127 / 2 + 1e-6) << i;
}

TEST(RoundActivations, RoundsThroughQ8ForOtherBlocks) {
  std::vector<float> row = Row(64), expected = row;
  const quant::Format* q8 = quant::FindFormat("q8_0");
  std::vector<std::byte> blocks(68);
  q8->encode(expected, {}, blocks);
  q8->decode(blocks, expected);
  RoundAsLlamaCpp(quant::FindFormat("q4_0"), row);
  EXPECT_EQ(row, expected);
  EXPECT_NE(row, Row(64));
}

TEST(RoundActivations, KeepsEightBitsForBf16) {
  std::vector<float> row = {1.00390625f, 1.01171875f};
  RoundAsLlamaCpp(quant::FindFormat("bf16"), row);
  EXPECT_EQ(row, (std::vector<float>{1.0f, 1.015625f}));
}

TEST(RoundActivations, KeepsZerosAndInfinities) {
  std::vector<float> row(256, 0.0f);
  RoundAsLlamaCpp(quant::FindFormat("q6_K"), row);
  EXPECT_EQ(row, std::vector<float>(256, 0.0f));
  row[3] = INFINITY;
  row[4] = 1;
  RoundAsLlamaCpp(quant::FindFormat("q6_K"), row);
  EXPECT_EQ(row[3], INFINITY);
  EXPECT_EQ(row[4], 1);
}

}  // namespace
}  // namespace moepack::runtime
