#include "runtime-shim/refit/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<uint32_t> kTwenty(20, 1), kFour(4, 1);

Calibration Make(std::vector<CalibrationSession> sessions, const CalibrationOptions& options) {
  auto made = MakeCalibration(sessions, options);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : Calibration();
}

std::vector<bool> KeptBack(const Calibration& calibration) {
  std::vector<bool> kept;
  for (const CalibrationWindow& window : calibration.windows) kept.push_back(window.kept_back);
  return kept;
}

CalibrationOptions WithFold(uint32_t fold) {
  CalibrationOptions options;
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
  CalibrationOptions options = WithFold(2);
  options.tokens = 8;
  const Calibration made = Make({{"a", "x", kTwenty, {}}, {"b", "y", kTwenty, {}}}, options);
  EXPECT_EQ(made.tokens, 16u);
}

TEST(Calibration, TakesTheWeightsOfTheSession) {
  const Calibration made = Make({{"a", "", kFour, {0.5f, 1}}, {"b", "", kFour, {}}}, WithFold(2));
  EXPECT_EQ(made.WeightOf(made.windows[0], 0), 0.5f);
  EXPECT_EQ(made.WeightOf(made.windows[1], 0), 1.0f);
}

TEST(Calibration, OneWindowIsTooFew) {
  const std::vector<CalibrationSession> sessions = {{"a", "", kFour, {}}};
  const auto made = MakeCalibration(sessions, WithFold(2));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message,
              HasSubstr("calibration text: expected at least 2 windows of 4 tokens, found 1"));
}

}  // namespace
}  // namespace moepack::runtime
