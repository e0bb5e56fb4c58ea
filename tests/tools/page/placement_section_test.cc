#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PlacementSectionTest, CountsSessionsByChosenAndBestNode) {
  const auto section = PlacementSection(FullInputs());
  ASSERT_TRUE(section);
  EXPECT_THAT(TableOf(section->body, "table-race-1"),
              ElementsAre(ElementsAre("chosen", "group 0", "group 1"),
                          ElementsAre("group 0", "1", "1"), ElementsAre("group 1", "0", "0")));
  EXPECT_THAT(TableOf(section->body, "table-capture-1"),
              ElementsAre(ElementsAre("chosen", "group 0", "group 1"),
                          ElementsAre("group 0", "1", "0"), ElementsAre("group 1", "0", "1")));
  EXPECT_THAT(section->body, Not(HasSubstr("table-table-1")));
  // The race loses 0.8 - 0.5 nats in one of two sessions.
  EXPECT_THAT(section->body, HasSubstr("lose 0.1500 nats per token"));
}

TEST(PlacementSectionTest, ShowsTheTableIfThereIsOne) {
  PageInputs inputs = FullInputs();
  PlacementTable table;
  table.trial = {24, 19, 15, 14};
  inputs.plan->placement = table;
  for (runtime::SessionChoice& session : inputs.evaluations[0].report.summary.sessions)
    session.by_table = 1;
  const auto section = PlacementSection(inputs);
  EXPECT_THAT(section->body, HasSubstr("each of 24 sessions was left out once: the table sent 19"));
  EXPECT_THAT(TableOf(section->body, "table-table-1")[2], ElementsAre("group 1", "1", "1"));
  EXPECT_THAT(section->findings.front(), HasSubstr("placement table sends <b>1 of 2</b>"));
}

}  // namespace
}  // namespace moepack::cli
