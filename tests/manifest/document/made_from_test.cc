#include "manifest/document/made_from.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

const std::string kOne = "0123456789abcdef", kTwo = "1123456789abcdef", kNew = "2123456789abcdef";

// As of a plan made from statistics of three sessions.
Manifest PlannedFrom(const std::string& texts) {
  Manifest manifest = sample::Make().manifest;
  Json calibration = {{"sessions", 2u}, {"held_out", 1u}};
  if (!texts.empty()) calibration["texts"] = texts;
  manifest.original = std::make_shared<const Json>(Json{{"calibration", calibration}});
  return manifest;
}

TEST(MadeFrom, CountsTheSessionsThatThePlanWasMadeFrom) {
  const Manifest manifest = PlannedFrom(kOne + " " + kTwo + " 3123456789abcdef");
  const MadeFrom found = MadeFromText(manifest, {kOne, kNew, kTwo});
  EXPECT_EQ(found, (MadeFrom{2, false, std::nullopt}));
  EXPECT_EQ(NotHeldOutText(found, 3),
            "The plan was made from 2 of the 3 sessions, which are not held out.");
  EXPECT_EQ(NotHeldOutText(found, 2),
            "The plan was made from all 2 sessions, which are not held out.");
  EXPECT_EQ(NotHeldOutText(MadeFrom{1, false, std::nullopt}, 1),
            "The plan was made from the one session, which is not held out.");
  EXPECT_EQ(NotHeldOutText(MadeFromText(manifest, {kNew}), 1), "");
}

TEST(MadeFrom, IsNotKnownOfStatisticsThatDoNotNameTheirTexts) {
  EXPECT_EQ(MadeFromText(PlannedFrom(""), {kOne}).plan, std::nullopt);
  EXPECT_EQ(MadeFromText(PlannedFrom(kTwo), {kOne}).plan, std::nullopt) << "one of three";
  EXPECT_EQ(MadeFromText(PlannedFrom(kTwo), {kTwo}).plan, 1u);
  EXPECT_EQ(NotHeldOutText(MadeFrom{}, 3),
            "Whether the plan was made from the same text is not known.");
  EXPECT_EQ(NotHeldOutText(std::nullopt, 3),
            "Whether the plan was made from the same text is not known.");
}

TEST(MadeFrom, NothingWasMadeFromTextWithoutStatistics) {
  Manifest manifest = sample::Make().manifest;
  EXPECT_EQ(MadeFromText(manifest, {kOne}), (MadeFrom{0, false, std::nullopt}));
  // Unless a placement table was learned from some.
  manifest.plan.placement.emplace();
  EXPECT_EQ(MadeFromText(manifest, {kOne}).plan, std::nullopt);
}

TEST(MadeFrom, CountsTheSessionsOfTheRefitToo) {
  Manifest manifest = sample::Make().manifest;
  RefitRecord record;
  record.calibration = {{"a.txt", "", std::string(64, '1'), 99, {kOne}, std::nullopt},
                        {"b.txt", "", std::string(64, '2'), 99, {}, TakenText{0, 0, 1}}};
  manifest.refit = std::make_shared<const RefitRecord>(record);
  const MadeFrom found = MadeFromText(manifest, {kOne, kNew});
  EXPECT_EQ(found, (MadeFrom{0, true, 1}));
  EXPECT_EQ(NotHeldOutText(found, 2),
            "The refit was made from 1 of the 2 sessions, which is not held out.");
  record.calibration.push_back({"old.txt", "", std::string(64, '3'), 99});
  manifest.refit = std::make_shared<const RefitRecord>(record);
  EXPECT_EQ(MadeFromText(manifest, {kNew}).refit, std::nullopt);
}

TEST(MadeFrom, CountsTheSessionsOfTheCalibrationToo) {
  Manifest manifest = sample::Make().manifest;
  CalibratedRecord record;
  record.calibration = {{"a.txt", "", std::string(64, '1'), 99, {kOne, kTwo}, std::nullopt}};
  manifest.calibrated = std::make_shared<const CalibratedRecord>(record);
  const MadeFrom found = MadeFromText(manifest, {kOne, kNew, kTwo});
  EXPECT_EQ(found, (MadeFrom{0, false, std::nullopt, true, 2}));
  EXPECT_EQ(NotHeldOutText(found, 3),
            "The calibration was made from 2 of the 3 sessions, which are not held out.");
}

}  // namespace
}  // namespace moepack::manifest
