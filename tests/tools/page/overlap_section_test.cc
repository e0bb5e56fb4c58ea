#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;

TEST(OverlapSectionTest, SharesRelateToTheNodeOfTheRow) {
  const auto section = OverlapSection(FullInputs());
  ASSERT_TRUE(section);
  // Node 0 has 0, 1, 2; node 1 has 0, 2, 3; node 2 has 0, 4, 5.
  EXPECT_THAT(TableOf(section->body, "table-overlap"),
              ElementsAre(ElementsAre("of node", "node 0", "node 1", "node 2"),
                          ElementsAre("0", "100.0 %", "66.7 %", "33.3 %"),
                          ElementsAre("1", "66.7 %", "100.0 %", "33.3 %"),
                          ElementsAre("2", "33.3 %", "33.3 %", "100.0 %")));
}

TEST(OverlapSectionTest, IsAbsentForASingleNode) {
  PageInputs inputs = FullInputs();
  inputs.plan->groups.resize(1);
  EXPECT_FALSE(OverlapSection(inputs));
}

}  // namespace
}  // namespace moepack::cli
