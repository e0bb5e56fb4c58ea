#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RoutingSectionTest, TheTableHasEveryShareByBucket) {
  const auto section = RoutingSection(FullInputs());
  ASSERT_TRUE(section);
  const auto rows = TableOf(section->body, "table-mass");
  ASSERT_EQ(rows.size(), 13u);
  EXPECT_THAT(rows[0], ElementsAre("layer", "expert", "node", "all sessions", "code", "prose"));
  // Layer 1, expert 0: 6 of 10 of the code session, 6 of 20 in all.
  EXPECT_THAT(rows[1], ElementsAre("1", "0", "0 and overlay", "30.00 %", "60.00 %", "0.00 %"));
  // Of group 2, expert 5 comes first: it has more.
  EXPECT_THAT(rows[5], ElementsAre("1", "5", "2", "30.00 %", "0.00 %", "60.00 %"));
}

TEST(RoutingSectionTest, CellsOfSmallModelsHaveTooltips) {
  const auto section = RoutingSection(FullInputs());
  EXPECT_THAT(section->body, HasSubstr("<title>layer 1, expert 5: 30.0 %, node 2</title>"));
  // Three groups in each of three maps.
  EXPECT_EQ(CountOf(section->body, "class=\"outline\""), 9u);
}

TEST(RoutingSectionTest, LargeModelsUseOnePathPerColour) {
  PageInputs inputs;
  ExpertScores scores;
  scores.layers = {{0, 4096, 8}};
  scores.sessions = {{"s", "", 1, std::vector<float>(4096, 1), {}}};
  scores.sessions[0].scores[7] = 100;
  inputs.scores = scores;
  const auto section = RoutingSection(inputs);
  EXPECT_EQ(CountOf(section->body, "<path "), 2u);
  EXPECT_THAT(section->body, Not(HasSubstr("<rect")));
}

TEST(RoutingSectionTest, AQuarterOfAnEvenLayerHasAQuarterOfTheTokens) {
  PageInputs inputs;
  ExpertScores scores = SomeScores();
  scores.layers = {{0, 4, 2}};
  scores.sessions = {{"s", "", 1, {1, 1, 1, 1}, {}}};
  inputs.scores = scores;
  EXPECT_THAT(RoutingSection(inputs)->findings.front(), HasSubstr("<b>25.0 %</b>"));
}

}  // namespace
}  // namespace moepack::cli
