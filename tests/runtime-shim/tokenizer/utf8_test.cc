#include "runtime-shim/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

constexpr const char* kBad = "\uFFFD";

TEST(RepairUtf8, KeepsValidText) {
  for (const std::string text :
       {"", "plain", "\u00e9\u0800\uffff", "\U00010000\U0010ffff", "\u0080\u07ff\ud7ff\ue000"}) {
    EXPECT_EQ(RepairUtf8(text), text);
  }
  EXPECT_EQ(RepairUtf8(std::string(1, '\0')), std::string(1, '\0'));
}

TEST(RepairUtf8, ReplacesEveryInvalidByte) {
  const std::string bad = kBad;
  EXPECT_EQ(RepairUtf8("a\x80z"), "a" + bad + "z");
  EXPECT_EQ(RepairUtf8("\xc3"), bad);
  EXPECT_EQ(RepairUtf8("\xe4\xb8x"), bad + bad + "x");
  EXPECT_EQ(RepairUtf8("\xf0\x9f\x98"), bad + bad + bad);
  EXPECT_EQ(RepairUtf8("\xff\xfe"), bad + bad);
}

TEST(RepairUtf8, OverlongFormsSurrogatesAndTooLargePointsAreNotValid) {
  const std::string two = std::string(kBad) + kBad;
  EXPECT_EQ(RepairUtf8("\xc0\xaf"), two);
  EXPECT_EQ(RepairUtf8("\xe0\x9f\xbf"), two + kBad);
  EXPECT_EQ(RepairUtf8("\xed\xa0\x80"), two + kBad);
  EXPECT_EQ(RepairUtf8("\xf0\x8f\xbf\xbf"), two + two);
  EXPECT_EQ(RepairUtf8("\xf4\x90\x80\x80"), two + two);
  EXPECT_EQ(RepairUtf8("\xf5\x80"), two);
}

}  // namespace
}  // namespace moepack::runtime
