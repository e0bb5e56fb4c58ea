#include "runtime-shim/refit/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

std::vector<uint32_t> CountFrom(uint32_t first, size_t count) {
  std::vector<uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

const std::vector<uint32_t> kKnown = CountFrom(0, 100), kUnknown = CountFrom(500, 100);
const std::vector<TokenSession> kCalibration = {{"known", "", kKnown, {}}};

TEST(Overlap, CountsSharedRunsOfTwelveTokens) {
  std::vector<uint32_t> half = CountFrom(80, 20);
  half.insert(half.end(), kUnknown.begin(), kUnknown.begin() + 91);
  const std::vector<TokenSession> held_out = {{"half", "", half, {}}, {"new", "", kUnknown, {}}};
  const auto overlaps = FindOverlaps(kCalibration, held_out);
  ASSERT_EQ(overlaps.size(), 1u);
  EXPECT_EQ(overlaps[0].session, "half");
  EXPECT_DOUBLE_EQ(overlaps[0].share, 0.09);  // 9 of 100
  EXPECT_TRUE(CheckOverlaps(overlaps));
}

TEST(Overlap, IgnoresRunsOfElevenTokens) {
  const std::vector<uint32_t> few = CountFrom(0, 11);
  const std::vector<TokenSession> held_out = {{"few", "", few, {}}};
  EXPECT_TRUE(FindOverlaps(kCalibration, held_out).empty());
}

TEST(Overlap, CopiedSessionIsRefused) {
  const std::vector<TokenSession> held_out = {{"copy", "", kKnown, {}}};
  const Status checked = CheckOverlaps(FindOverlaps(kCalibration, held_out));
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("held-out session \"copy\": expected other text"));
  EXPECT_THAT(checked.error().message, HasSubstr("found 100.0 % of its runs of 12 tokens"));
}

}  // namespace
}  // namespace moepack::runtime
