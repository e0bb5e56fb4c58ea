#include "libshard/base/files/zstd.h"
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
    const ExpertScores frames = ImportedBytes(StatisticsBytes("s.json.zst", *statistics), options);
    EXPECT_TRUE(WithoutSource(json) == expected);
    EXPECT_TRUE(WithoutSource(frames) == expected);
    options.pairs = false;
    EXPECT_TRUE(
        ImportedBytes(StatisticsBytes("s.json.zst", *statistics), options).co_selection.empty());
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
  const ExpertScores scores = ImportedBytes(StatisticsBytes("s.json.zst", *statistics));
  EXPECT_EQ(scores.basis, ScoreBasis::kGateMass);
  EXPECT_TRUE(WithoutSource(scores) == ScoresFromStatistics(*statistics, std::nullopt));
  ImportOptions norms;
  norms.basis = ScoreBasis::kWeightedNorm;
  for (const std::string& bytes :
       {StatisticsBytes("s.json.zst", *statistics), StatisticsBytes("s.json", *statistics)}) {
    const Error error = ImportError(bytes, norms);
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_EQ(error.message, "in: scores: expected reap, found only count and gate");
  }
}

TEST(MoepackStatisticsImport, StatisticsWithoutSessionsAreRefused) {
  const std::string expected = "in: sessions: expected at least one, found none";
  for (const char* name : {"s.json", "s.json.zst"})
    EXPECT_EQ(ImportError(StatisticsBytes(name, EmptyStatistics(SampleModel()))).message, expected);
}

TEST(MoepackStatisticsImport, DamageIsNamed) {
  std::string bytes = StatisticsBytes("s.json.zst", SampleStatistics());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_THAT(ImportError(bytes).message,
              ::testing::HasSubstr(": expected the checksum of its text, found another"));
}

TEST(MoepackStatisticsImport, OtherFormatsAreNotReadFromZstd) {
  ZstdWriter zstd;
  const std::string bytes = zstd.Frame(FixtureBytes("sglang.json"));
  ImportOptions named = ForTiny();
  named.format = "sglang";
  for (const ImportOptions& options : {ForTiny(), named}) {
    const Error error = ImportError(bytes, options);
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_EQ(error.message, "in: expected sglang as it is, found it in zstd");
    EXPECT_EQ(error.hint, "run zstd -d in and name its output");
  }
  EXPECT_THAT(ImportError(zstd.Frame("what?")).message,
              ::testing::HasSubstr("found a file of no format that is known"));
}

TEST(MoepackStatisticsImport, StatisticsOfAnotherModelAreRefusedByLayer) {
  ImportOptions options = ForTiny();
  options.model[1].expert_count = 32;
  const Error error = ImportError(FixtureBytes("profile.json"), options);
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_EQ(error.message, "in: layer 1: experts: expected 32, found 16");
}

// A session's numbers cross the boundary of the reader's pieces at every offset.
TEST(MoepackStatisticsImport, ReadsSessionsLongerThanTheReaderPieces) {
  ModelIdentity model = SampleModel();
  model.layers.clear();
  for (uint32_t layer = 0; layer < 1024; ++layer) model.layers.push_back({layer, 32, 1});
  Statistics statistics = EmptyStatistics(model);
  for (size_t i = 0; i < 3; ++i) {
    SessionTally session{"s" + std::to_string(i), "", "cpu", "f32", {}};
    PhaseTally& prefill = session.phases[0];
    for (size_t layer = 0; layer < model.layers.size(); ++layer) {
      LayerTally& tally = prefill.layers.emplace_back(32);
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
  for (const char* name : {"s.json", "s.json.zst"}) {
    const std::string bytes = StatisticsBytes(name, statistics);
    if (!IsZstd(bytes)) {
      EXPECT_GT(bytes.size(), 3 * kTextPiece);
    }
    EXPECT_TRUE(WithoutSource(ImportedBytes(bytes)) ==
                ScoresFromStatistics(statistics, std::nullopt));
  }
}

}  // namespace
}  // namespace moepack
