#include "libshard/calibrate/calibrated_record.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(CalibrationKeysTest, AreReadAsTheyWereSet) {
  CalibratedRecord record;
  record.model = std::string(16, 'a');
  record.types = std::string(64, 'b');
  record.parameters = {{"method", "feedback-1"}};
  record.calibration = {{"a.txt", "prose", std::string(64, '1'), 99}};
  GgufMetadata metadata;
  EXPECT_FALSE(FindCalibrationKeys(metadata));
  SetCalibrationKeys(record, metadata);
  const auto keys = FindCalibrationKeys(metadata);
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->version.size(), 16u);
  EXPECT_EQ(keys->method, "feedback-1");
  EXPECT_EQ(keys->texts.size(), 64u);
  EXPECT_EQ(keys->tokens, 99u);
}

TEST(CalibrationKeysTest, OfAHostileFileAreLeftOut) {
  GgufMetadata metadata;
  metadata.Set("moepack.calibration.version", GgufValue::U32(7));
  metadata.Set("moepack.calibration.method", GgufValue::String(std::string(65, 'm')));
  metadata.Set("moepack.calibration.texts", GgufValue::String("\xff"));
  metadata.Set("moepack.calibration.tokens", GgufValue::String("many"));
  EXPECT_EQ(FindCalibrationKeys(metadata), CalibrationKeys());
}

}  // namespace
}  // namespace moepack
