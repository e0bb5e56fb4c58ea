#include "tools/reports/planning/place_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

using ::testing::Optional;

TEST(PlaceReport, TheProbeRanksTheGroupsByTheirShares) {
  const SessionPlace place = PlaceByProbe("s", {0.5, 0.25, 0.75, 0.75}, 9);
  EXPECT_EQ(place.group, 2u);
  EXPECT_THAT(place.second, Optional(3u));
  EXPECT_EQ(place.margin, 0);
  EXPECT_EQ(place.tokens, 9u);
  EXPECT_THAT(PlaceByProbe("s", {0.5, 0.25, 0.75}, 9).second, Optional(0u));
  const SessionPlace alone = PlaceByProbe("s", {0.5}, 9);
  EXPECT_EQ(alone.group, 0u);
  EXPECT_FALSE(alone.second);
}

TEST(PlaceReport, TheRaceCoversOnlyExistingGroups) {
  const SessionPlace place = PlaceByRace("s", {0, 4}, {1, 32, 0.5});
  EXPECT_EQ(place.group, 4u);
  EXPECT_EQ(PlaceText({place}),
            "session  group  second              lead  sure  tokens  known  by\n"
            "s            4       -  0.500 nats/token  -         32      -  race\n");
}

TEST(PlaceReport, APlanShowsTheTrialOfItsTable) {
  PlacementTable table;
  table.tokens.ids = {1, 2};
  EXPECT_EQ(PlacementLine(table), "placement: 2 tokens; no group has two sessions to try it on");
  table.tokens.left_out = 1234;
  table.trial = {10, 8, 7, 6};
  EXPECT_EQ(PlacementLine(table),
            "placement: 2 tokens, 1,234 left out; sends 8 of 10 sessions that it had not seen to "
            "their group, and is right about 6 of the 7 it is sure of");
}

}  // namespace
}  // namespace moepack::cli
