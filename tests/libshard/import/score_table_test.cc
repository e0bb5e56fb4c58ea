#include "libshard/import/score_table.h"

#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ImportOptions ModelOf(std::vector<MoeLayerShape> layers) {
  ImportOptions options;
  options.model = std::move(layers);
  return options;
}

ScoreTable TableWith(std::vector<ScoreRow> rows) {
  ScoreTable table;
  table.rows = std::move(rows);
  return table;
}

Error TableError(std::vector<ScoreRow> rows, const ImportOptions& options = {}) {
  const auto scores = ScoresFromTable("in", TableWith(std::move(rows)), options);
  if (scores) return {Code::kInterrupted, "was taken"};
  return scores.error();
}

TEST(ScoreTable, RowsAreSortedByTheirLayer) {
  const auto scores = ScoresFromTable("in", TableWith({{3, {1, 2}}, {1, {4, 5}}}), {});
  ASSERT_TRUE(scores);
  EXPECT_THAT(scores->layers, ElementsAre(MoeLayerShape{1, 2, 0}, MoeLayerShape{3, 2, 0}));
  EXPECT_THAT(scores->sessions.at(0).scores, ElementsAre(4, 5, 1, 2));
}

TEST(ScoreTable, UsesTheLayerNumbersOfTheModel) {
  const auto scores =
      ScoresFromTable("in", TableWith({{1, {1, 2}}, {3, {4, 5}}}), ModelOf({{1, 2, 1}, {3, 2, 1}}));
  ASSERT_TRUE(scores);
  EXPECT_THAT(scores->layers, ElementsAre(MoeLayerShape{1, 2, 1}, MoeLayerShape{3, 2, 1}));
  EXPECT_THAT(scores->warnings, IsEmpty());
}

TEST(ScoreTable, MapsOtherLayerNumbersByPositionWithAWarning) {
  const auto scores =
      ScoresFromTable("in", TableWith({{0, {1, 2}}, {1, {4, 5}}}), ModelOf({{1, 2, 1}, {2, 2, 1}}));
  ASSERT_TRUE(scores) << scores.error().message;
  EXPECT_THAT(scores->layers, ElementsAre(MoeLayerShape{1, 2, 1}, MoeLayerShape{2, 2, 1}));
  EXPECT_THAT(scores->sessions.at(0).scores, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(scores->warnings,
              ElementsAre("in: layers 0 to 1 are taken by position for layers 1 to 2 of the model, "
                          "which has as many with experts"));
}

TEST(ScoreTable, EmptyRowsOfBlocksWithoutExpertsAreDropped) {
  const auto scores =
      ScoresFromTable("in", TableWith({{0, {0, 0}}, {1, {4, 5}}}), ModelOf({{1, 2, 1}}));
  ASSERT_TRUE(scores) << scores.error().message;
  EXPECT_THAT(scores->layers, ElementsAre(MoeLayerShape{1, 2, 1}));
  EXPECT_THAT(scores->warnings, IsEmpty());
}

TEST(ScoreTable, LayersOfAnotherModelAreRefusedByName) {
  const Error missing = TableError({{0, {1}}}, ModelOf({{0, 1, 1}, {2, 1, 1}}));
  EXPECT_EQ(missing.code, Code::kMismatch);
  EXPECT_EQ(missing.message,
            "in: layer 2: expected scores of 1 expert, found no such layer among 1");
  const Error extra = TableError({{0, {1}}, {1, {1}}}, ModelOf({{0, 1, 1}}));
  EXPECT_EQ(extra.message,
            "in: layer 1: expected no such layer, because the model has 1 with experts, found "
            "scores");
  EXPECT_EQ(TableError({{0, {1, 2}}}, ModelOf({{0, 3, 1}})).message,
            "in: layer 0: experts: expected 3, found 2");
}

TEST(ScoreTable, RefusesAnInvalidTable) {
  EXPECT_EQ(TableError({}).message, "in: layers: expected at least one, found none");
  EXPECT_EQ(TableError({{2, {1}}, {2, {1}}}).message, "in: layer 2: expected once, found twice");
  EXPECT_EQ(TableError({{70000, {1}}}).message, "in: layer 70000: expected a number below 65536");
  EXPECT_EQ(TableError({{0, {}}}).message, "in: layer 0: experts: expected 1 to 4096, found 0");
  EXPECT_EQ(TableError({{0, std::vector<double>(4097, 1)}}).message,
            "in: layer 0: experts: expected 1 to 4096, found 4097");
}

TEST(ScoreTable, AScoreMustBeFiniteAndNotNegative) {
  EXPECT_EQ(TableError({{0, {1, -1}}}).message,
            "in: layer 0: expert 1: expected a finite score, not negative, found -1");
  EXPECT_EQ(TableError({{0, {std::nan("")}}}).message,
            "in: layer 0: expert 0: expected a finite score, not negative, found nan");
  EXPECT_EQ(TableError({{0, {1e300}}}).message,
            "in: layer 0: expert 0: expected a finite score, not negative, found 1e+300");
}

TEST(ScoreTable, RanksBecomeDescendingScores) {
  const auto scores = ScoresFromRanks("in", {2, 0}, 4);
  ASSERT_TRUE(scores);
  EXPECT_THAT(*scores, ElementsAre(3, 0, 4, 0));
  EXPECT_EQ(ScoresFromRanks("in", {4}, 4).error().message,
            "in: expert: expected an id below 4, found 4");
  EXPECT_EQ(ScoresFromRanks("in", {1, 1}, 4).error().message,
            "in: expert 1: expected once, found twice");
}

TEST(ScoreTable, ABasisThatTheFileLacksIsRefused) {
  ImportOptions options = ForTiny();
  options.basis = ScoreBasis::kWeightedNorm;
  const Error error = ImportError(FixtureBytes("sglang.json"), options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message, "in: scores: expected reap, found only count");
}

}  // namespace
}  // namespace moepack
