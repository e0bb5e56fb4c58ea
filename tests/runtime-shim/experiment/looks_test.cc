#include "runtime-shim/experiment/looks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;

std::vector<TokenSession> Sessions(size_t prose, size_t code) {
  std::vector<TokenSession> sessions;
  for (size_t i = 0; i < prose; ++i) sessions.push_back({Cat("prose-", i), "prose"});
  for (size_t i = 0; i < code; ++i) sessions.push_back({Cat("code-", i), "code"});
  return sessions;
}

TEST(OrderSessions, EveryPrefixHasItsShareOfEachBucket) {
  const std::vector<TokenSession> sessions = Sessions(30, 10);
  const std::vector<size_t> order = OrderSessions(sessions);
  std::map<std::string, int> seen;
  for (size_t i = 0; i < order.size(); ++i) {
    ++seen[sessions[order[i]].bucket];
    EXPECT_NEAR(seen["code"], static_cast<double>(i + 1) / 4, 1) << i;
  }
  EXPECT_EQ(seen["prose"], 30);
  EXPECT_EQ(seen["code"], 10);
}

TEST(OrderSessions, DependsOnNamesAndNotOnOrder) {
  std::vector<TokenSession> sessions = Sessions(7, 5), turned(sessions.rbegin(), sessions.rend());
  const auto named = [](const std::vector<TokenSession>& all) {
    std::vector<std::string> names;
    for (const size_t place : OrderSessions(all)) names.push_back(all[place].name);
    return names;
  };
  EXPECT_EQ(named(sessions), named(turned));
}

TEST(PlanLooks, AreEquallySpaced) {
  EXPECT_THAT(PlanLooks(40, 4), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(PlanLooks(41, 4), ElementsAre(11, 21, 31, 41));
  EXPECT_THAT(PlanLooks(40, 1), ElementsAre(40));
}

TEST(PlanLooks, StartWithEnoughSessions) {
  EXPECT_THAT(PlanLooks(11, 4), ElementsAre(6, 9, 11));
  EXPECT_THAT(PlanLooks(3, 4), ElementsAre(3));
}

}  // namespace
}  // namespace moepack::runtime
