#include "runtime-shim/refit/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<uint32_t> kTwenty(20, 1), kFour(4, 1);

Calibration Make(const std::vector<TokenSession>& sessions, const RefitOptions& options,
                 std::optional<uint32_t> bos = std::nullopt, const SessionWeights& weights = {}) {
  auto made = MakeCalibration(sessions, weights, options, bos);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : Calibration();
}

std::vector<bool> KeptBack(const Calibration& calibration) {
  std::vector<bool> kept;
  for (const CalibrationWindow& window : calibration.windows) kept.push_back(window.kept_back);
  return kept;
}

RefitOptions WithFold(uint32_t fold) {
  RefitOptions options;
  options.context = 4;
  options.fold = fold;
  return options;
}

TEST(Calibration, HoldsOutEveryNthWindowOfFewSessions) {
  const Calibration made = Make({{"a", "x", kTwenty, {}}}, WithFold(2));
  EXPECT_EQ(made.tokens, 20u);
  EXPECT_THAT(KeptBack(made), ElementsAre(false, true, false, true, false));
}

TEST(Calibration, HoldsOutEveryNthOfManySessionsWhole) {
  const Calibration made =
      Make({{"a", "x", kTwenty, {}}, {"b", "x", kTwenty, {}}, {"c", "x", kFour, {}}}, WithFold(2));
  EXPECT_THAT(KeptBack(made),
              ElementsAre(false, false, false, false, false, true, true, true, true, true, false));
}

TEST(Calibration, HoldsOutTheLastWindowOfAShortText) {
  EXPECT_THAT(KeptBack(Make({{"a", "", kTwenty, {}}}, WithFold(50))),
              ElementsAre(false, false, false, false, true));
}

TEST(Calibration, LimitsTheTokensOfEachBucket) {
  RefitOptions options = WithFold(2);
  options.tokens = 8;
  const Calibration made = Make({{"a", "x", kTwenty, {}}, {"b", "y", kTwenty, {}}}, options);
  EXPECT_EQ(made.tokens, 16u);
}

TEST(Calibration, TakesTheWeightsOfTheSession) {
  const Calibration made =
      Make({{"a", "", kFour}, {"b", "", kFour}}, WithFold(2), std::nullopt, {{0.5f, 1}, {}});
  EXPECT_EQ(made.WeightOf(made.windows[0], 0), 0.5f);
  EXPECT_EQ(made.WeightOf(made.windows[1], 0), 1.0f);
}

TEST(Calibration, OneWindowIsTooFew) {
  const std::vector<TokenSession> sessions = {{"a", "", kFour, {}}};
  const auto made = MakeCalibration(sessions, {}, WithFold(2), std::nullopt);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message,
              HasSubstr("calibration text: expected at least 2 windows of 4 tokens, found 1"));
}

// Sessions of 10 tokens; three kinds in one bucket, one after the other, as files are given.
std::vector<TokenSession> ThreeKinds(const std::vector<uint32_t>& tokens) {
  std::vector<TokenSession> sessions;
  for (int i = 0; i < 300; ++i)
    sessions.push_back({"kind " + std::to_string(i / 100) + ", " + std::to_string(100 + i % 100),
                        "x",
                        {tokens.begin(), tokens.begin() + 10},
                        {}});
  return sessions;
}

TEST(Calibration, ALimitTakesWholeSessionsOfEveryKindInABucket) {
  const std::vector<TokenSession> sessions = ThreeKinds(kTwenty);
  const std::vector<uint64_t> taken = TokensTaken(sessions, 900);
  uint64_t of_kind[3] = {};
  for (size_t i = 0; i < taken.size(); ++i) {
    EXPECT_TRUE(taken[i] == 0 || taken[i] == 10);
    of_kind[i / 100] += taken[i];
  }
  EXPECT_EQ(of_kind[0] + of_kind[1] + of_kind[2], 900u);
  for (const uint64_t tokens : of_kind) EXPECT_NEAR(static_cast<double>(tokens), 300, 20);
  RefitOptions options = WithFold(8);
  options.tokens = 900;
  const Calibration made = Make(sessions, options);
  EXPECT_EQ(made.tokens, 900u);
  ASSERT_EQ(made.buckets.size(), 1u);
  EXPECT_EQ(made.buckets[0].sessions, 90u);
  EXPECT_EQ(made.buckets[0].of_sessions, 300u);
  EXPECT_EQ(made.buckets[0].of_tokens, 3000u);
  EXPECT_EQ(made.buckets[0].in_part, 0u);
  // Every eighth of the sessions that are taken is held out, not of all.
  const std::vector<bool> kept = KeptBack(made);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), true), 11 * 3);
}

TEST(Calibration, ALimitTakesTheSameSessionsWhateverTheOrderOfTheFiles) {
  std::vector<TokenSession> sessions = ThreeKinds(kTwenty);
  const auto taken_names = [&] {
    std::set<std::string> names;
    const std::vector<uint64_t> taken = TokensTaken(sessions, 400);
    for (size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] > 0) names.insert(sessions[i].name);
    }
    return names;
  };
  const std::set<std::string> before = taken_names();
  EXPECT_EQ(before.size(), 40u);
  std::reverse(sessions.begin(), sessions.end());
  EXPECT_EQ(taken_names(), before);
}

TEST(Calibration, OfSessionsLongerThanAnEighthOfTheLimitPartsAreTaken) {
  const std::vector<uint32_t> tokens(1000, 1);
  // One session takes nothing away from the others.
  EXPECT_THAT(TokensTaken(
                  std::vector<TokenSession>{
                      {"a", "x", tokens, {}}, {"b", "x", tokens, {}}, {"c", "x", tokens, {}}},
                  600),
              ElementsAre(200, 200, 200));
  // Short ones are taken whole.
  EXPECT_THAT(TokensTaken(
                  std::vector<TokenSession>{
                      {"a", "x", tokens, {}}, {"b", "x", kTwenty, {}}, {"c", "y", tokens, {}}},
                  100),
              ElementsAre(80, 20, 100));
  // What fits is taken whole.
  EXPECT_THAT(TokensTaken(std::vector<TokenSession>{{"a", "x", kTwenty, {}}}, 20), ElementsAre(20));
  EXPECT_THAT(TokensTaken(std::vector<TokenSession>{{"a", "x", kTwenty, {}}}, 0), ElementsAre(20));
}

TEST(Calibration, APartOfASessionIsSpreadOverIt) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 100; ++i) tokens.push_back(i);
  RefitOptions options = WithFold(2);
  options.context = 10;
  options.tokens = 20;
  const Calibration made = Make({{"a", "x", tokens, {}}}, options);
  ASSERT_EQ(made.windows.size(), 2u);
  EXPECT_EQ(made.windows[0].tokens.front(), 20u);  // 25 is the middle of the first half
  EXPECT_EQ(made.windows[1].tokens.front(), 70u);
  EXPECT_EQ(made.tokens, 20u);
  EXPECT_EQ(made.buckets[0].in_part, 1u);
}

}  // namespace
}  // namespace moepack::runtime
