#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "libshard/strategies/session_shares.h"
#include "libshard/strategies/strategy.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// The mean capture of sessions on their best group.
double MeanCapture(const ExpertScores& scores, const std::vector<size_t>& sessions,
                   const HeldSets& held) {
  const SessionShares shares(scores, sessions);
  const std::vector<double> captures = CaptureBySessionAndGroup(shares, held).value();
  double sum = 0;
  for (size_t session = 0; session < sessions.size(); ++session)
    sum += *std::max_element(
        captures.begin() + static_cast<std::ptrdiff_t>(session * held.size()),
        captures.begin() + static_cast<std::ptrdiff_t>((session + 1) * held.size()));
  return sum / static_cast<double>(sessions.size());
}

std::vector<size_t> Places(size_t from, size_t to) {
  std::vector<size_t> places(to - from);
  std::iota(places.begin(), places.end(), from);
  return places;
}

// The sets of each session alone, which no plan beats.
double OracleCapture(const ExpertScores& scores, const std::vector<size_t>& sessions,
                     uint32_t room) {
  double sum = 0;
  for (const size_t session : sessions) {
    StrategyInput own = InputOf(scores, 1, room);
    own.sessions = {session};
    sum += MeanCapture(scores, {session}, kHoldSame.hold(own).value());
  }
  return sum / static_cast<double>(sessions.size());
}

TEST(HoldForSessions, FindsThePlantedKindsOnSessionsItHasNotSeen) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const ExpertScores scores = Planted{.sessions = 75, .seed = seed}.Make();
    StrategyInput input = InputOf(scores, 3, 8);
    input.sessions = Places(0, 60);
    const std::vector<size_t> held_out = Places(60, 75);
    const HeldSets held = kHoldForSessions.hold(input).value();
    const double found = MeanCapture(scores, held_out, held);
    EXPECT_GE(found, OracleCapture(scores, held_out, 8) - 0.02) << seed;
    EXPECT_GE(found, MeanCapture(scores, held_out, kHoldRanked.hold(input).value()) + 0.2) << seed;
    EXPECT_GE(found, MeanCapture(scores, held_out, kHoldSame.hold(input).value()) + 0.2) << seed;
  }
}

TEST(HoldForSessions, EveryGroupHoldsTheExpertsThatAllSessionsUse) {
  const ExpertScores scores = Planted{}.Make();
  const HeldSets held = kHoldForSessions.hold(InputOf(scores, 3, 8)).value();
  const HeldSets same = kHoldSame.hold(InputOf(scores, 1, 2)).value();  // the two shared experts
  for (const auto& group : held) {
    for (size_t layer = 0; layer < group.size(); ++layer) {
      EXPECT_EQ(group[layer].size(), 8u);
      EXPECT_TRUE(Difference(same[0][layer], group[layer]).empty());
    }
  }
}

TEST(HoldForSessions, DependsNeitherOnTheOrderOfSessionsNorOnRandomness) {
  const ExpertScores scores = Planted{}.Make();
  StrategyInput input = InputOf(scores, 3, 8);
  const HeldSets held = kHoldForSessions.hold(input).value();
  EXPECT_EQ(kHoldForSessions.hold(input).value(), held);
  ExpertScores shuffled = scores;
  SplitMix64 random(9);
  for (size_t i = shuffled.sessions.size(); i-- > 1;)
    std::swap(shuffled.sessions[i], shuffled.sessions[random.Below(i + 1)]);
  EXPECT_EQ(kHoldForSessions.hold(InputOf(shuffled, 3, 8)).value(), held);
}

// The best of all ways to assign five sessions to two groups; for each way the best sets are known.
double BestOfAllGroupings(const ExpertScores& scores, uint32_t room) {
  const size_t sessions = scores.sessions.size();
  double best = 0;
  for (uint32_t mask = 1; mask + 1 < 1u << sessions; ++mask) {
    HeldSets held;
    for (const uint32_t side : {0u, 1u}) {
      StrategyInput input = InputOf(scores, 1, room);
      input.sessions.clear();
      for (size_t session = 0; session < sessions; ++session) {
        if ((mask >> session & 1) == side) input.sessions.push_back(session);
      }
      held.push_back(kHoldSame.hold(input).value()[0]);
    }
    best = std::max(best, MeanCapture(scores, Places(0, sessions), held));
  }
  return best;
}

TEST(HoldForSessions, IsWithinTwoPercentOfTheOptimumOfSmallCases) {
  SplitMix64 random(11);
  double worst = 1, sum = 0;
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<float>> rows(5, std::vector<float>(16));
    for (auto& row : rows) {
      for (float& score : row) score = static_cast<float>(random.Below(100) * random.Below(100));
    }
    const ExpertScores scores = ScoresOf({{0, 8, 2}, {1, 8, 2}}, rows);
    const HeldSets held = kHoldForSessions.hold(InputOf(scores, 2, 4)).value();
    const double part = MeanCapture(scores, Places(0, 5), held) / BestOfAllGroupings(scores, 4);
    worst = std::min(worst, part);
    sum += part;
  }
  EXPECT_GE(worst, 0.98);
  EXPECT_GE(sum / kRounds, 0.998);
}

TEST(HoldForSessions, GroupsHoldAsManyExpertsAsTheyHaveRoomFor) {
  const ExpertScores scores = Planted{.kinds = 2, .sessions = 20, .own = 8}.Make();
  StrategyInput input = InputOf(scores, 2, 10);
  input.rooms[0].assign(scores.layers.size(), 4);
  const HeldSets held = kHoldForSessions.hold(input).value();
  for (size_t layer = 0; layer < scores.layers.size(); ++layer) {
    EXPECT_EQ(held[0][layer].size(), 4u);
    EXPECT_EQ(held[1][layer].size(), 10u);
  }
}

// Half of the sessions use two experts, and half use the other eight.
TEST(HoldForSessions, LargerGroupsGetTheSessionsThatNeedMore) {
  std::vector<std::vector<float>> rows;
  for (int pair = 0; pair < 10; ++pair) {
    rows.push_back({9, 8, 0, 0, 0, 0, 0, 0, 0, 0});
    rows.push_back({0, 0, 9, 8, 7, 6, 5, 4, 3, 2});
  }
  const ExpertScores scores = ScoresOf({{0, 10, 2}}, rows);
  for (const size_t larger : {0, 1}) {
    StrategyInput input = InputOf(scores, 2, 2);
    input.rooms[larger] = {8};
    const HeldSets held = kHoldForSessions.hold(input).value();
    EXPECT_EQ(FormatIds(held[larger][0]), "2-9") << larger;
    EXPECT_EQ(FormatIds(held[1 - larger][0]), "0-1") << larger;
  }
}

TEST(HoldForSessions, RefusesFewerSessionsThanGroups) {
  const ExpertScores scores = ScoresOf({{0, 4, 1}}, {{1, 2, 3, 4}, {4, 3, 2, 1}});
  const auto held = kHoldForSessions.hold(InputOf(scores, 3, 2));
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, Code::kInvalidArgument);
  EXPECT_EQ(held.error().message,
            "statistics: sessions to plan from: expected at least 3, one per group, found 2");
  EXPECT_THAT(held.error().hint, HasSubstr("--partition ranked or same"));
}

TEST(HoldForSessions, IdenticalSessionsAreStillDivided) {
  const std::vector<std::vector<float>> rows(6, {4, 3, 2, 1});
  const ExpertScores scores = ScoresOf({{0, 4, 1}}, rows);
  const HeldSets held = kHoldForSessions.hold(InputOf(scores, 2, 2)).value();
  EXPECT_EQ(held[0], held[1]);
  EXPECT_EQ(held[0][0], (ExpertIds{0, 1}));
}

// Pairs of as many sessions took minutes and gigabytes.
TEST(HoldForSessions, TwentyThousandSessionsArePlannedAsWellAsAFew) {
  const ExpertScores scores =
      Planted{.layers = 2, .experts = 12, .sessions = 20000, .own = 3}.Make();
  StrategyInput input = InputOf(scores, 3, 5);
  const HeldSets held = kHoldForSessions.hold(input).value();
  const double found = MeanCapture(scores, input.sessions, held);
  input.sessions = Places(0, 60);
  const HeldSets of_few = kHoldForSessions.hold(input).value();
  const std::vector<size_t> all = Places(0, 20000);
  EXPECT_GE(found, MeanCapture(scores, all, of_few) - 0.005);
  EXPECT_GE(found, 0.8);
}

TEST(HoldForSessions, TheOrderOfManySessionsDoesNotMatter) {
  const ExpertScores scores =
      Planted{.layers = 2, .experts = 12, .sessions = 2500, .own = 3}.Make();
  StrategyInput input = InputOf(scores, 3, 5);
  const HeldSets held = kHoldForSessions.hold(input).value();
  std::reverse(input.sessions.begin(), input.sessions.end());
  EXPECT_EQ(kHoldForSessions.hold(input).value(), held);
}

}  // namespace
}  // namespace moepack
