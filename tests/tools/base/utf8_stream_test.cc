#include "tools/base/utf8_stream.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

TEST(Utf8Stream, PassesWholeCharactersAtOnce) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Add("abc"), "abc");
  EXPECT_EQ(stream.Add("\xc3\xa9\xe2\x82\xac"), "\xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(stream.Rest(), "");
}

TEST(Utf8Stream, HoldsBytesUntilTheCharacterIsComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Add("a\xf0"), "a");
  EXPECT_EQ(stream.Add("\x9f\x98"), "");
  EXPECT_EQ(stream.Add("\x80"
                       "b"),
            "\xf0\x9f\x98\x80"
            "b");
}

TEST(Utf8Stream, PassesInvalidBytes) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Add("\xff"), "\xff");
  EXPECT_EQ(stream.Add("\x80\x80\x80\x80"), "\x80\x80\x80\x80");
  EXPECT_EQ(stream.Add("\xe2"), "");
  EXPECT_EQ(stream.Add("abc"),
            "\xe2"
            "abc");
}

TEST(Utf8Stream, ReturnsTheRestAtTheEnd) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Add("x\xe2\x82"), "x");
  EXPECT_EQ(stream.Rest(), "\xe2\x82");
  EXPECT_EQ(stream.Rest(), "");
}

}  // namespace
}  // namespace moepack::cli
