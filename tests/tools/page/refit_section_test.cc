#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RefitSectionTest, TheTableHasEveryOutcome) {
  const auto section = RefitSection(FullInputs());
  ASSERT_TRUE(section);
  EXPECT_THAT(TableOf(section->body, "table-refit-1"),
              ElementsAre(ElementsAre("layer", "node", "before", "after", "accepted",
                                      "neurons moved", "least tokens of a slot"),
                          ElementsAre("1", "0", "0.4000", "0.1000", "yes", "12", "700"),
                          ElementsAre("1", "1", "0.3000", "0.3500", "no", "0", "800"),
                          ElementsAre("2", "0", "0.6000", "0.2000", "yes", "5", "-")));
  EXPECT_EQ(CountOf(section->body, "class=\"line after\""), 2u);
  EXPECT_THAT(section->body, HasSubstr("<title>layer 2 after: 0.2000</title>"));
}

TEST(RefitSectionTest, TheLegendNamesOnlyWhatIsDrawn) {
  PageInputs inputs = FullInputs();
  constexpr const char* kRejected = "not accepted: the source&#39;s weights stay";
  EXPECT_THAT(RefitSection(inputs)->body, HasSubstr(kRejected));
  inputs.refits[0].outcomes[1].accepted = true;
  EXPECT_THAT(RefitSection(inputs)->body, Not(HasSubstr(kRejected)));
  for (RefitOutcome& outcome : inputs.refits[0].outcomes) outcome.accepted = false;
  EXPECT_THAT(RefitSection(inputs)->body, Not(HasSubstr("</span>after</li>")));
}

TEST(RefitSectionTest, RejectedLayersKeepTheirError) {
  const auto section = RefitSection(FullInputs());
  EXPECT_THAT(section->body, HasSubstr("<title>layer 1: not accepted</title>"));
  // (0.4 + 0.3 + 0.6) / 3 to (0.1 + 0.3 + 0.2) / 3.
  EXPECT_THAT(section->findings.front(), HasSubstr("<b>0.433 to 0.200</b>"));
  EXPECT_THAT(section->findings.front(), HasSubstr("accepted 2 of 3 times"));
}

}  // namespace
}  // namespace moepack::cli
