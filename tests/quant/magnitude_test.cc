#include "quant/search/magnitude.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/quant/same_bytes.h"

namespace quant {
namespace {

class LargestMagnitude : public EachInstructionSet {};

TEST_P(LargestMagnitude, IsFoundWhereverItIs) {
  std::vector<float> values(200, 0.5f);
  for (size_t count = 1; count <= values.size(); ++count) {
    for (size_t at = count > 70 ? count - 70 : 0; at < count; ++at) {
      values[at] = at % 2 == 0 ? -3.0f : 3.0f;
      EXPECT_EQ(LargestMagnitudeBits({values.data(), count}), std::bit_cast<uint32_t>(3.0f))
          << at << " of " << count;
      values[at] = 0.5f;
    }
  }
}

TEST_P(LargestMagnitude, MatchesALoopOnRandomBits) {
  fuzz::Random random(5);
  for (size_t count = 0; count <= 300; ++count) {
    std::vector<float> values(count);
    uint32_t expected = 0;
    for (float& value : values) {
      value = std::bit_cast<float>(static_cast<uint32_t>(random.Next()));
      expected = std::max(expected, std::bit_cast<uint32_t>(value) & 0x7fffffff);
    }
    EXPECT_EQ(LargestMagnitudeBits(values), expected) << count << " values";
  }
}

TEST_P(LargestMagnitude, PutsInfinityAboveFiniteValuesAndNanAboveInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(LargestMagnitudeBits(std::vector<float>{-infinity, 3.4e38f}), 0x7f800000u);
  EXPECT_GT(LargestMagnitudeBits(std::vector<float>{-NAN, infinity}), 0x7f800000u);
  EXPECT_EQ(LargestMagnitudeBits(std::vector<float>{-0.0f}), 0u);
}

FOR_EACH_INSTRUCTION_SET(LargestMagnitude);

}  // namespace
}  // namespace quant
