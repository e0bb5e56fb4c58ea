#include "libshard/stats/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/libshard/stats/sample.h"

namespace moepack {
namespace {

using ::testing::HasSubstr;

TEST(Statistics, PairsHaveDistinctIndexesInOrder) {
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint64_t j = i + 1; j < 5; ++j) places.push_back(PairIndex(i, j, 5));
  }
  ASSERT_EQ(places.size(), PairCount(5));
  for (uint64_t place = 0; place < places.size(); ++place) EXPECT_EQ(places[place], place);
}

TEST(Statistics, MergingAppendsSessionsAndAddsPairs) {
  Statistics all = SampleStatistics();
  Statistics other = SampleStatistics();
  for (SessionTally& session : other.sessions) session.name += "2";
  ASSERT_TRUE(MergeStatistics("other", other, all));
  ASSERT_EQ(all.sessions.size(), 4u);
  EXPECT_EQ(all.sessions[2].name, "a.txt2");
  EXPECT_EQ(all.sessions[2].phases, SampleStatistics().sessions[0].phases);
  EXPECT_EQ(all.sessions[2].token_counts, SampleStatistics().sessions[0].token_counts);
  EXPECT_EQ(all.co_selection[0][2], 600u);
}

TEST(Statistics, ASessionIsNotMergedTwice) {
  Statistics all = SampleStatistics();
  Statistics other = SampleStatistics();
  for (SessionTally& session : other.sessions) session.precision = "bf16";
  const auto status = MergeStatistics("other.json", other, all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, moepack::Code::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("other.json: session \"a.txt\": expected"));
  EXPECT_EQ(all, SampleStatistics());
}

TEST(Statistics, MergingNeverOverflows) {
  Statistics all = SampleStatistics();
  Statistics other = SampleStatistics();
  for (SessionTally& session : other.sessions) session.name += "2";
  other.sessions[0].phases[0].tokens = kMaxStatisticsTokens - 2;
  const auto status = MergeStatistics("other.json", other, all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, moepack::Code::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("other.json: tokens: expected at most"));
  EXPECT_EQ(all, SampleStatistics());
}

TEST(Statistics, MergingIntoEmptyStatisticsChangesNothing) {
  Statistics all = EmptyStatistics(SampleModel());
  ASSERT_TRUE(MergeStatistics("other", SampleStatistics(), all));
  EXPECT_EQ(all, SampleStatistics());
}

TEST(Statistics, RefusesToMergeOtherRouters) {
  Statistics all = SampleStatistics();
  Statistics other = SampleStatistics();
  other.model.router_digest[0] = 'f';
  const auto status = MergeStatistics("other.json", other, all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, moepack::Code::kMismatch);
  EXPECT_EQ(status.error().message,
            "other.json: router digest: expected \"00112233445566778899aabbccddeeff\", found "
            "\"f0112233445566778899aabbccddeeff\"");
  EXPECT_EQ(all, SampleStatistics());
}

TEST(Statistics, RefusesToMergeOtherLayers) {
  Statistics all = SampleStatistics();
  Statistics other = EmptyStatistics(SampleModel());
  other.model.layers[1].top_k = 2;
  const auto status = MergeStatistics("other.json", other, all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, moepack::Code::kMismatch);
  EXPECT_THAT(status.error().message, HasSubstr("other.json: MoE layers: expected"));
}

TEST(Statistics, AddsUpAllSessionsOrOneBucket) {
  Statistics statistics = SampleStatistics();
  statistics.sessions[1].phases[1] = statistics.sessions[0].phases[0];
  const TotalTally all = AddUp(statistics);
  EXPECT_EQ(all.tokens, 600u);
  EXPECT_EQ(all.layers[0][1].count, 400u);
  const std::string bucket = "code";
  const TotalTally code = AddUp(statistics, &bucket);
  EXPECT_EQ(code.tokens, 300u);
  EXPECT_EQ(code.layers[0][1].gate_mass, 91.125);
  const std::string none = "chat";
  EXPECT_EQ(AddUp(statistics, &none).layers[1][2].peak, 0);
}

}  // namespace
}  // namespace moepack
