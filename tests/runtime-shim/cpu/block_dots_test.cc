// Products of single tokens straight from blocks, beside products with decoded weights.
#include "runtime-shim/cpu/block_dots.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "runtime-shim/cpu/dots.h"
#include "tests/quant/same_bytes.h"

namespace moepack::runtime {
namespace {

std::vector<float> Waves(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i) * step) * std::cos(static_cast<float>(i % 977));
  return values;
}

// Rows of weights that begin at an odd byte, as tensors of a file may.
struct Weights {
  Weights(const quant::Format& type, uint32_t row_count, uint32_t width)
      : format(&type), rows(row_count), columns(width), row_bytes(*type.BytesFor(width)) {
    bytes.resize(1 + rows * row_bytes);
    decoded.resize(size_t{rows} * columns);
    format->encode(Waves(decoded.size(), 0.37f), {}, blocks());
    format->decode(blocks(), decoded);
  }
  std::span<std::byte> blocks() { return std::span(bytes).subspan(1); }

  const quant::Format* format;
  uint32_t rows, columns;
  size_t row_bytes;
  std::vector<std::byte> bytes;
  std::vector<float> decoded;
};

class BlockDots : public quant::EachInstructionSet {
 protected:
  // Whether there is a kernel. If so, it gave the bits of MultiplyRows for some of the rows.
  static bool Check(Weights& weights, uint32_t first, uint32_t rows) {
    const std::vector<float> x = Waves(weights.columns, 0.11f);
    std::vector<float> expected(rows), found(rows + 1, 77);
    const float* const in = x.data();
    float* const out = expected.data();
    MultiplyRows({{&weights.decoded[size_t{first} * weights.columns], weights.columns, rows},
                  weights.columns,
                  {&in, 1},
                  {&out, 1}});
    const std::byte* const blocks = weights.blocks().data() + first * weights.row_bytes;
    if (!MultiplyBlocks(weights.format,
                        {blocks, weights.row_bytes, rows, weights.columns, x.data(), found.data()}))
      return false;
    for (uint32_t r = 0; r < rows; ++r) {
      if (std::isnan(expected[r]) && std::isnan(found[r])) continue;
      EXPECT_EQ(std::memcmp(&expected[r], &found[r], sizeof(float)), 0)
          << weights.format->name << ", " << weights.columns << " columns, row " << first + r
          << " of " << rows << " from " << first << ": expected " << expected[r] << ", found "
          << found[r];
    }
    EXPECT_EQ(found[rows], 77);
    return true;
  }
};

TEST_P(BlockDots, GiveTheBitsOfDecodedWeights) {
  if (GetParam().name == "scalar") GTEST_SKIP() << "no kernels without vectors";
  for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_K", "q5_K", "q6_K"}) {
    for (const uint32_t columns : {256u, 768u, 2048u, 2304u, 4352u}) {
      Weights weights(*quant::FindFormat(name), 13, columns);
      for (const uint32_t first : {0u, 3u}) {
        for (const uint32_t rows : {1u, 2u, 4u, 5u, 10u})
          EXPECT_TRUE(Check(weights, first, rows)) << name;
      }
    }
  }
}

// Scales may be of any size, zero, infinite or NaN. There are many NaNs; any will do.
TEST_P(BlockDots, GiveTheBitsOfDecodedWeightsForAnyBytes) {
  if (GetParam().name == "scalar") GTEST_SKIP() << "no kernels without vectors";
  std::mt19937 random(3);
  for (const char* name : {"q8_0", "q4_K", "q5_K", "q6_K"}) {
    Weights weights(*quant::FindFormat(name), 400, 256);
    for (std::byte& byte : weights.bytes) byte = static_cast<std::byte>(random());
    weights.format->decode(weights.blocks(), weights.decoded);
    EXPECT_TRUE(Check(weights, 0, weights.rows)) << name;
  }
}

TEST_P(BlockDots, LeaveOtherTypesAndWidthsAlone) {
  Weights other(*quant::FindFormat("mxfp4"), 2, 256), odd(*quant::FindFormat("bf16"), 2, 65);
  EXPECT_FALSE(Check(other, 0, 2));
  EXPECT_FALSE(Check(odd, 0, 2));
}

FOR_EACH_INSTRUCTION_SET(BlockDots);

}  // namespace
}  // namespace moepack::runtime
