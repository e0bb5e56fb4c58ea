#include <gmock/gmock.h>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DamageSectionTest, ShowsTheSplitBesideQuantization) {
  const auto section = DamageSection(FullInputs());
  ASSERT_TRUE(section);
  const auto rows = TableOf(section->body, "table-damage-1");
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_THAT(rows[0], ElementsAre("run", "tokens", "nats", "extra nats", "KLD", "same top-1",
                                   "KLD, code", "KLD, prose"));
  EXPECT_THAT(rows[1],
              ElementsAre("quantization alone", "100", "3.0000 ± 0.1250", "0.0062 ± 0.0006",
                          "0.0124 ± 0.0012", "75.0 % ± 3.0 %", "-", "-"));
  EXPECT_THAT(rows[2],
              ElementsAre("split, each on its node", "100", "3.2500 ± 0.1250", "0.1250 ± 0.0125",
                          "0.2500 ± 0.0250", "75.0 % ± 3.0 %", "0.2000", "0.3500"));
  EXPECT_EQ(rows[4][0], "all sessions on node 1");
  EXPECT_EQ(rows[4][4], "0.7000 ± 0.0700");
  EXPECT_THAT(section->body, HasSubstr("<title>all sessions on node 1, code: 0.9000</title>"));
  EXPECT_THAT(section->body, HasSubstr(">Q4_K_M</text>"));
  EXPECT_THAT(section->findings.front(), HasSubstr("<b>0.2500 ± 0.0250 nats</b>"));
  EXPECT_THAT(section->findings.front(), HasSubstr("quantization alone costs 0.0124"));
}

TEST(DamageSectionTest, DrawsRecordedFiguresOnce) {
  PageInputs inputs = FullInputs();
  inputs.distribution->quality = SomeQuality();
  const auto section = DamageSection(inputs);
  EXPECT_THAT(section->body, HasSubstr("<h3>Recorded in the distribution</h3>"));
  EXPECT_THAT(section->body, Not(HasSubstr("table-damage-2")));
  inputs.evaluations[0].report.quality->best.all.tokens = 7;
  EXPECT_THAT(DamageSection(inputs)->body, HasSubstr("table-damage-2"));
}

TEST(DamageSectionTest, WorseFiguresAreFartherRightOnTheLogarithmicAxis) {
  const auto section = DamageSection(FullInputs());
  const auto place = [&](const std::string& run) {
    const size_t tip = section->body.find("<title>" + run + ": ");
    const size_t at = section->body.rfind("cx=\"", tip) + 4;
    return std::stod(section->body.substr(at));
  };
  EXPECT_LT(place("quantization alone"), place("split, each on its node"));
  EXPECT_LT(place("all sessions on node 0"), place("all sessions on node 1"));
}

TEST(DamageSectionTest, NoBarsStandOnALogarithmicAxis) {
  EXPECT_THAT(DamageSection(FullInputs())->body, Not(HasSubstr("<rect")));
}

TEST(DamageSectionTest, TheCaptionNamesBucketsOnlyWhereThereAreAny) {
  PageInputs inputs = FullInputs();
  EXPECT_THAT(DamageSection(inputs)->body, HasSubstr("small dots the buckets"));
  auto& quality = *inputs.evaluations[0].report.quality;
  quality.best.buckets.clear();
  for (auto& [group, row] : quality.groups) row.buckets.clear();
  EXPECT_THAT(DamageSection(inputs)->body, Not(HasSubstr("buckets")));
}

TEST(DamageSectionTest, SaysWhereOneNodeForAllCostsLessThanEachOnItsOwn) {
  PageInputs inputs = FullInputs();
  EXPECT_THAT(DamageSection(inputs)->findings.front(), Not(HasSubstr("All sessions on node")));
  inputs.evaluations[0].report.quality->best.all.split->kld.mean = 0.77;
  EXPECT_THAT(DamageSection(inputs)->findings.front(),
              HasSubstr("All sessions on node 0 cost less, <b>0.3000 ± 0.0300 nats</b>"));
  // The whiskers touch: the difference may be chance.
  inputs.evaluations[0].report.quality->best.all.split->kld.mean = 0.35;
  EXPECT_THAT(DamageSection(inputs)->findings.front(), Not(HasSubstr("All sessions on node")));
}

TEST(DamageSectionTest, TheHeadlineSaysWhereTheTextIsNotHeldOut) {
  PageInputs inputs = FullInputs();
  EXPECT_THAT(DamageSection(inputs)->findings.front(), Not(HasSubstr("held out")));
  auto& quality = *inputs.evaluations[0].report.quality;
  quality.made_from = manifest::MadeFrom{quality.sessions, false, std::nullopt};
  EXPECT_THAT(DamageSection(inputs)->findings.front(), HasSubstr("not held out."));
}

}  // namespace
}  // namespace moepack::cli
