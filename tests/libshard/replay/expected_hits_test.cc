#include "libshard/replay/expected_hits.h"

#include <gtest/gtest.h>

#include "libshard/replay/cache_replay.h"
#include "tests/libshard/replay/small_trace.h"

namespace moepack {
namespace {

ExpertScores Scores(const std::vector<MoeLayerShape>& layers, const std::vector<float>& counts,
                    uint64_t tokens) {
  ExpertScores scores;
  scores.layers = layers;
  scores.sessions = {{"s", "", tokens, counts, {}}};
  return scores;
}

TEST(ExpectedHits, AFixedSetHitsItsShare) {
  const ExpertScores scores = Scores({{0, 4, 1}, {3, 2, 1}}, {1, 5, 3, 1, 10, 0}, 10);
  EXPECT_DOUBLE_EQ(ExpectHits(scores, {1, 1}).fixed, 15.0 / 20);
  EXPECT_DOUBLE_EQ(ExpectHits(scores, {2, 1}).fixed, 18.0 / 20);
  EXPECT_DOUBLE_EQ(ExpectHits(scores, {9, 9}).fixed, 1);
  EXPECT_DOUBLE_EQ(ExpectHits(scores, {9, 9}).lru, 1);
}

TEST(ExpectedHits, AnLruCacheAlwaysHitsExpertsThatEveryTokenUses) {
  // Two experts that every token uses: two slots always hold them.
  EXPECT_DOUBLE_EQ(ExpectHits(Scores({{0, 4, 2}}, {10, 10, 0, 0}, 10), {2}).lru, 1);
}

TEST(ExpectedHits, AnLruCacheHitsItsShareOfEquallyLikelyExperts) {
  // All experts have the same probability of being held: slots / experts.
  EXPECT_NEAR(ExpectHits(Scores({{0, 8, 1}}, std::vector<float>(8, 5), 40), {2}).lru, 0.25, 1e-9);
}

TEST(ExpectedHits, AreZeroWithoutCounts) {
  const ExpectedHits hits = ExpectHits(Scores({{0, 2, 1}}, {0, 0}, 0), {1});
  EXPECT_EQ(hits.fixed, 0);
  EXPECT_EQ(hits.lru, 0);
}

// On a trace of independent tokens, the expected hits match the actual ones.
TEST(ExpectedHits, AgreeWithATraceOfIndependentTokens) {
  SmallRandom random(3);
  constexpr uint32_t kTokens = 40'000;
  std::vector<std::vector<uint16_t>> chosen(kTokens);
  for (auto& ids : chosen) ids = {static_cast<uint16_t>(random.Below(1 + random.Below(8)))};
  const RouteTrace trace = SmallTrace(8, 0, chosen);
  std::vector<float> counts(8);
  for (const auto& ids : chosen) ++counts[ids[0]];
  ReplayOptions options;
  options.policies = {CachePolicy::kLru, CachePolicy::kStatic};
  options.best_first = MostChosen(trace, kTokens);
  for (uint32_t slots = 1; slots < 8; ++slots) options.slots.push_back({slots});
  const auto rows = ReplayTrace(trace, options);
  ASSERT_TRUE(rows);
  const ExpertScores scores = Scores({{0, 8, 1}}, counts, kTokens);
  for (const ReplayRow& row : *rows) {
    const ExpectedHits hits = ExpectHits(scores, options.slots[row.size]);
    const double rate = static_cast<double>(row.all().hits) / kTokens;
    // Che's approximation is accurate to a percent or two for so few experts.
    EXPECT_NEAR(rate, row.policy == CachePolicy::kLru ? hits.lru : hits.fixed, 0.02);
  }
}

}  // namespace
}  // namespace moepack
