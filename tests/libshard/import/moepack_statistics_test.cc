#include <nlohmann/json.hpp>

#include "libshard/stats/statistics_file.h"
#include "tests/libshard/import/imported.h"
#include "tests/libshard/stats/sample.h"

namespace moepack {
namespace {

ExpertScores WithoutSource(ExpertScores scores) {
  scores.digest.clear();
  return scores;
}

TEST(MoepackStatisticsImport, BothFormsGiveTheScoresOfTheWholeStatistics) {
  const auto statistics = ReadStatistics(StatisticsFixture("profile.json"));
  ASSERT_TRUE(statistics) << statistics.error().message;
  for (const auto basis :
       {std::optional<ScoreBasis>(), std::optional(ScoreBasis::kCount),
        std::optional(ScoreBasis::kGateMass), std::optional(ScoreBasis::kWeightedNorm)}) {
    ImportOptions options = ForTiny();
    options.basis = basis;
    const ExpertScores expected = ScoresFromStatistics(*statistics, basis);
    const ExpertScores json = Imported("profile.json", options);
    const ExpertScores binary = ImportedBytes(StatisticsToBinary(*statistics), options);
    EXPECT_TRUE(WithoutSource(json) == expected);
    EXPECT_TRUE(WithoutSource(binary) == expected);
    options.pairs = false;
    EXPECT_TRUE(ImportedBytes(StatisticsToBinary(*statistics), options).co_selection.empty());
  }
}

TEST(MoepackStatisticsImport, FallsBackToGatesWithoutNorms) {
  auto statistics = ReadStatistics(StatisticsFixture("profile.json"));
  ASSERT_TRUE(statistics);
  for (SessionTally& session : statistics->sessions) {
    for (LayerTally& layer : session.phases[0].layers) {
      for (ExpertTally& expert : layer) expert.weighted_norm = 0;
    }
  }
  const ExpertScores scores = ImportedBytes(StatisticsToBinary(*statistics));
  EXPECT_EQ(scores.basis, ScoreBasis::kGateMass);
  EXPECT_TRUE(WithoutSource(scores) == ScoresFromStatistics(*statistics, std::nullopt));
  ImportOptions norms;
  norms.basis = ScoreBasis::kWeightedNorm;
  for (const std::string& bytes :
       {StatisticsToBinary(*statistics), WriteJson(StatisticsToJson(*statistics))}) {
    const Error error = ImportError(bytes, norms);
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_EQ(error.message, "in: scores: expected reap, found only count and gate");
  }
}

TEST(MoepackStatisticsImport, StatisticsWithoutSessionsAreRefused) {
  const std::string expected = "in: sessions: expected at least one, found none";
  EXPECT_EQ(ImportError(StatisticsToBinary(EmptyStatistics(SampleModel()))).message, expected);
  EXPECT_EQ(ImportError(WriteJson(StatisticsToJson(EmptyStatistics(SampleModel())))).message,
            expected);
}

TEST(MoepackStatisticsImport, ADamagedBinaryIsRefusedBeforeItIsUsed) {
  std::string bytes = StatisticsToBinary(SampleStatistics());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_EQ(ImportError(bytes).message, "in: digest: expected that of the payload, found another");
}

TEST(MoepackStatisticsImport, StatisticsOfAnotherModelAreRefusedByLayer) {
  ImportOptions options = ForTiny();
  options.model[1].expert_count = 32;
  const Error error = ImportError(FixtureBytes("profile.json"), options);
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_EQ(error.message, "in: layer 1: experts: expected 32, found 16");
}

// A session's numbers cross the boundary of the reader's window at every offset.
TEST(MoepackStatisticsImport, ReadsSessionsLongerThanTheReaderWindow) {
  ModelIdentity model = SampleModel();
  model.layers = {{0, 4096, 1}, {1, 4096, 1}, {2, 4096, 1}};
  Statistics statistics = EmptyStatistics(model);
  for (size_t i = 0; i < 12; ++i) {
    SessionTally session{"s" + std::to_string(i), "", "cpu", "f32", {}};
    PhaseTally& prefill = session.phases[0];
    for (size_t layer = 0; layer < model.layers.size(); ++layer) {
      LayerTally& tally = prefill.layers.emplace_back(4096);
      for (size_t e = 0; e < tally.size(); ++e) {
        const auto count = static_cast<double>(1 + (e + i) % 200);
        tally[e] = {static_cast<uint64_t>(count), count / 2, count / 4, count * 3, 1};
      }
    }
    for (const ExpertTally& expert : prefill.layers[0]) prefill.tokens += expert.count;
    for (LayerTally& tally : prefill.layers) {
      uint64_t sum = 0;
      for (const ExpertTally& expert : tally) sum += expert.count;
      ASSERT_EQ(sum, prefill.tokens);
    }
    statistics.sessions.push_back(std::move(session));
  }
  const std::string bytes = StatisticsToBinary(statistics);
  ASSERT_GT(bytes.size(), 3u << 20);
  EXPECT_TRUE(WithoutSource(ImportedBytes(bytes)) ==
              ScoresFromStatistics(statistics, std::nullopt));
}

}  // namespace
}  // namespace moepack
