#include "libshard/base/text/cat.h"

#include <gtest/gtest.h>

#include <limits>

namespace moepack {
namespace {

TEST(Cat, JoinsTextOfEveryKind) {
  const std::string text = "b";
  EXPECT_EQ(Cat("a", text, std::string_view("cd").substr(1), 'e'), "abde");
  EXPECT_EQ(Cat(), "");
}

TEST(Cat, PrintsIntegersInFull) {
  EXPECT_EQ(Cat(std::numeric_limits<int64_t>::min(), " ", std::numeric_limits<uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(Cat(uint8_t{65}, " ", int8_t{-1}, " ", true), "65 -1 1");
}

TEST(Cat, PrintsSixDigitsOfFloatingPointNumbers) {
  EXPECT_EQ(Cat(1.0 / 3, " ", 2.0f, " ", 1e-7, " ", 1234567.0), "0.333333 2 1e-07 1.23457e+06");
  EXPECT_EQ(Cat(-std::numeric_limits<double>::max()), "-1.79769e+308");
  EXPECT_EQ(Cat(std::numeric_limits<double>::infinity()), "inf");
}

}  // namespace
}  // namespace moepack
