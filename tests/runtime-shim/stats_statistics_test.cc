#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime-shim/stats/statistics.h"
#include "tests/runtime-shim/stats_sample.h"

namespace runtime {
namespace {

using ::testing::HasSubstr;

TEST(Statistics, PairsHaveDistinctPlacesInOrder) {
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint64_t j = i + 1; j < 5; ++j) places.push_back(PairIndex(i, j, 5));
  }
  ASSERT_EQ(places.size(), PairCount(5));
  for (uint64_t place = 0; place < places.size(); ++place) EXPECT_EQ(places[place], place);
}

TEST(Statistics, MergingAddsTheSameSessionAndAppendsOthers) {
  Statistics all = SampleStatistics();
  Statistics other = SampleStatistics();
  other.sessions[1].name = "c";
  ASSERT_TRUE(MergeStatistics("other", other, all));
  ASSERT_EQ(all.sessions.size(), 3u);
  EXPECT_EQ(all.sessions[2].name, "c");
  const PhaseTally& prefill = all.sessions[0].phases[0];
  EXPECT_EQ(prefill.tokens, 600u);
  EXPECT_EQ(prefill.sinks, 4u);
  EXPECT_EQ(prefill.layers[0][1].count, 400u);
  EXPECT_EQ(prefill.layers[0][1].gate_mass, 182.25);
  EXPECT_EQ(prefill.layers[0][1].odd_gate_mass, 81.0);
  EXPECT_EQ(prefill.layers[0][1].weighted_norm, 2e-7);
  EXPECT_EQ(prefill.layers[0][3].peak, 1e30f);
  EXPECT_EQ(all.co_selection[0][2], 600u);
}

TEST(Statistics, MergingKeepsSessionsOfAnotherPrecisionApart) {
  Statistics all = SampleStatistics();
  Statistics other = SampleStatistics();
  for (SessionTally& session : other.sessions) session.precision = "bf16";
  ASSERT_TRUE(MergeStatistics("other", other, all));
  EXPECT_EQ(all.sessions.size(), 4u);
}

TEST(Statistics, MergingIntoNothingGivesTheSame) {
  Statistics all = EmptyStatistics(SampleModel());
  ASSERT_TRUE(MergeStatistics("other", SampleStatistics(), all));
  EXPECT_EQ(all, SampleStatistics());
}

TEST(Statistics, OtherRoutersAreRefused) {
  Statistics all = SampleStatistics();
  Statistics other = SampleStatistics();
  other.model.router_digest[0] = 'f';
  const auto status = MergeStatistics("other.json", other, all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, shard::Code::kMismatch);
  EXPECT_EQ(status.error().message,
            "other.json: router digest: expected \"00112233445566778899aabbccddeeff\", found "
            "\"f0112233445566778899aabbccddeeff\"");
  EXPECT_EQ(all, SampleStatistics());
}

TEST(Statistics, OtherLayersAreRefused) {
  Statistics all = SampleStatistics();
  Statistics other = EmptyStatistics(SampleModel());
  other.model.layers[1].top_k = 2;
  const auto status = MergeStatistics("other.json", other, all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, shard::Code::kMismatch);
  EXPECT_THAT(status.error().message, HasSubstr("other.json: MoE layers: expected"));
}

TEST(Statistics, TotalsAreOfAllSessionsOrOfOneBucket) {
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
}  // namespace runtime
