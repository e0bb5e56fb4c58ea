#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime-shim/eval/summary.h"

namespace moepack::runtime {
namespace {

// Three sessions and two groups. Group 1 diverges least in the first session, group 0 in the
// others.
std::vector<SessionChoice> Sessions() {
  std::vector<SessionChoice> sessions(3);
  sessions[0].divergences = {0.5, 0.25};
  sessions[0].by_kld = 1;
  sessions[1].divergences = {1, 3};
  sessions[2].divergences = {0.125, 0.25};
  sessions[2].by_capture = 1;
  for (SessionChoice& session : sessions) {
    session.race.winner = 0;
    session.placed = PlacementAnswer();
    session.by_table = 1;
  }
  sessions[1].placed->sure = true;
  sessions[0].placed->sure = true;
  return sessions;
}

TEST(Rules, AreComparedWithTheLeastDivergence) {
  const std::vector<RuleFigures> rules = SummarizeRules(Sessions());
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_EQ(rules[0].rule, "table");
  EXPECT_DOUBLE_EQ(rules[0].accuracy, 1.0 / 3);
  EXPECT_DOUBLE_EQ(rules[0].regret, (0 + 2 + 0.125) / 3);
  EXPECT_EQ(rules[0].sure, 2u);
  EXPECT_EQ(rules[0].sure_right, 1u);
  EXPECT_EQ(rules[1].rule, "race");
  EXPECT_DOUBLE_EQ(rules[1].accuracy, 2.0 / 3);
  EXPECT_DOUBLE_EQ(rules[1].regret, 0.25 / 3);
  EXPECT_FALSE(rules[1].sure);
  EXPECT_EQ(rules[2].rule, "capture");
  EXPECT_DOUBLE_EQ(rules[2].accuracy, 1.0 / 3);
  EXPECT_EQ(rules[3].rule, "any group");
  EXPECT_DOUBLE_EQ(rules[3].accuracy, 0.5);
  EXPECT_DOUBLE_EQ(rules[3].regret, (0.125 + 1 + 0.0625) / 3);
}

// A table may name a group whose files are absent.
TEST(Rules, IgnoreSessionsOfAGroupThatWasNotRun) {
  std::vector<SessionChoice> sessions = Sessions();
  sessions[1].by_table.reset();
  const RuleFigures table = SummarizeRules(sessions)[0];
  EXPECT_EQ(table.sessions, 2u);
  EXPECT_DOUBLE_EQ(table.accuracy, 0.5);
  EXPECT_EQ(table.sure, 1u);
  for (SessionChoice& session : sessions) session.by_table.reset();
  EXPECT_EQ(SummarizeRules(sessions)[0].sessions, 0u);
}

}  // namespace
}  // namespace moepack::runtime
