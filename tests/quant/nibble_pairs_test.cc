#include "quant/legacy/nibble_pairs.h"

#include <cmath>
#include <cstring>

#include "tests/quant/same_bytes.h"

namespace quant {
namespace {

class NibblePairs : public EachInstructionSet {};

TEST(NibblePairsRef, DecodesTheLowHalfFirst) {
  const std::byte pairs[] = {std::byte{0x2f}, std::byte{0x80}};
  float out[3];
  DecodeNibblePairsRef(pairs, {8, 0.5f}, out);
  EXPECT_EQ(out[0], 3.5f);
  EXPECT_EQ(out[1], -3.0f);
  EXPECT_EQ(out[2], -4.0f);
}

TEST_P(NibblePairs, MatchesTheReferenceForAnyNumberOfValues) {
  fuzz::Random random(11);
  for (size_t count = 0; count <= 200; ++count) {
    std::vector<std::byte> pairs((count + 1) / 2);
    for (std::byte& byte : pairs) byte = static_cast<std::byte>(random.Next());
    const NibbleScale scale{static_cast<float>(random.Below(16)),
                            std::ldexp(-1.1f, static_cast<int>(random.Below(280)) - 150)};
    std::vector<float> ours(count), expected(count);
    DecodeNibblePairs(pairs, scale, ours);
    DecodeNibblePairsRef(pairs, scale, expected);
    EXPECT_EQ(0, count == 0 ? 0 : std::memcmp(ours.data(), expected.data(), count * sizeof(float)))
        << count << " values";
  }
}

FOR_EACH_INSTRUCTION_SET(NibblePairs);

}  // namespace
}  // namespace quant
