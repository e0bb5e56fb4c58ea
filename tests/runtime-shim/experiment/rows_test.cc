#include "runtime-shim/experiment/rows.h"

#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

SessionFigures OneNode(const std::string& name, uint64_t tokens, double kld) {
  SessionFigures session;
  session.name = name;
  session.tokens = tokens;
  session.nodes = {{kld, 2 * kld, 0.5, 0.5}};
  return session;
}

ExperimentRow Row(const std::string& strategy, const std::string& recipe,
                  const std::vector<double>& klds) {
  ExperimentRow row{strategy, recipe, 8, 1000, {}};
  for (size_t i = 0; i < klds.size(); ++i)
    row.sessions.push_back(OneNode(std::to_string(i), 10, klds[i]));
  return row;
}

TEST(ExperimentRow, DescribesWhatWasDone) {
  EXPECT_EQ(Row("ranked", "", {}).label(), "split, ranked");
  EXPECT_EQ(Row("", "Q4_K_M", {}).label(), "quantization, Q4_K_M");
  EXPECT_EQ(Row("ranked", "Q4_K_M", {}).label(), "both, ranked, Q4_K_M");
  ExperimentRow refitted = Row("ranked", "", {});
  refitted.refitted = true;
  EXPECT_EQ(refitted.label(), "refit, ranked");
  refitted.recipe = "Q4_K_M";
  EXPECT_EQ(refitted.label(), "refit, ranked, Q4_K_M");
  ExperimentRow calibrated = Row("", "Q4_K_M", {});
  calibrated.calibrated = true;
  EXPECT_EQ(calibrated.label(), "calibrated, Q4_K_M");
  calibrated.strategy = "ranked";
  EXPECT_EQ(calibrated.label(), "calibrated, ranked, Q4_K_M");
}

TEST(ExperimentRow, ComparesSessionsInPairs) {
  const ExperimentRow a = Row("a", "", {1, 5, 9}), b = Row("b", "", {0.5, 4.5, 8.5});
  EXPECT_GT(EstimateRow(a, Choice::kAny, &NodeFigures::kld).error, 2);
  const Estimate difference = EstimateDifference(a, b, Choice::kAny, &NodeFigures::kld);
  EXPECT_DOUBLE_EQ(difference.mean, 0.5);
  EXPECT_NEAR(difference.error, 0, 1e-12);
}

TEST(ExperimentRow, IsComparedWithTheFirstOfItsKindAndRecipe) {
  const std::vector<ExperimentRow> rows = {Row("a", "", {}), Row("b", "", {}), Row("", "Q", {}),
                                           Row("a", "Q", {}), Row("b", "Q", {})};
  EXPECT_EQ(BaselineOf(rows[0], rows), nullptr);
  EXPECT_EQ(BaselineOf(rows[1], rows), &rows[0]);
  EXPECT_EQ(BaselineOf(rows[2], rows), nullptr);
  EXPECT_EQ(BaselineOf(rows[3], rows), nullptr);
  EXPECT_EQ(BaselineOf(rows[4], rows), &rows[3]);
}

TEST(ExperimentRow, ComparesARefittedSplitWithTheSameSplitUnrefitted) {
  std::vector<ExperimentRow> rows = {Row("a", "", {}), Row("b", "", {}),  Row("b", "Q", {}),
                                     Row("b", "", {}), Row("b", "Q", {}), Row("c", "", {})};
  for (size_t i = 3; i < rows.size(); ++i) rows[i].refitted = true;
  EXPECT_EQ(BaselineOf(rows[1], rows), &rows[0]);
  EXPECT_EQ(BaselineOf(rows[3], rows), &rows[1]);
  EXPECT_EQ(BaselineOf(rows[4], rows), &rows[2]);
  EXPECT_EQ(BaselineOf(rows[5], rows), nullptr);
}

TEST(ExperimentRow, ComparesACalibratedRowWithItsPlainForm) {
  std::vector<ExperimentRow> rows = {Row("a", "", {}),  Row("", "Q", {}), Row("a", "Q", {}),
                                     Row("b", "Q", {}), Row("", "Q", {}), Row("b", "Q", {})};
  for (size_t i = 4; i < rows.size(); ++i) rows[i].calibrated = true;
  EXPECT_EQ(BaselineOf(rows[1], rows), nullptr);
  EXPECT_EQ(BaselineOf(rows[3], rows), &rows[2]);
  EXPECT_EQ(BaselineOf(rows[4], rows), &rows[1]);
  EXPECT_EQ(BaselineOf(rows[5], rows), &rows[3]);
}

TEST(ExperimentRow, FindsTheLargestErrorOverTheFirstSessions) {
  const std::vector<ExperimentRow> rows = {Row("a", "", {1, 1, 9}), Row("b", "", {1, 2, 1})};
  EXPECT_NEAR(LargestError(rows, 2), 0.5, 1e-12);
  EXPECT_GT(LargestError(rows, 3), 2);
}

}  // namespace
}  // namespace moepack::runtime
