#include "libshard/plan/overlay_name.h"

#include <gtest/gtest.h>

#include <string>

namespace moepack {
namespace {

TEST(OverlayName, ALabelIsAName) {
  for (const char* name : {"1", "generalists-1", "None", "none-2", "auto.1"})
    EXPECT_EQ(ExpectedOverlayName(name), nullptr) << name;
  for (const char* name : {"", ".hidden", "../up", "v 1"})
    EXPECT_STREQ(ExpectedOverlayName(name), "1 to 64 of [A-Za-z0-9._-], the first not a dot");
}

TEST(OverlayName, WordsOfTheOptionAreReserved) {
  for (const std::string_view word : {kNoOverlay, kAutomaticOverlay})
    EXPECT_STREQ(ExpectedOverlayName(word),
                 "a name other than none and auto, which are words of --overlay");
}

}  // namespace
}  // namespace moepack
