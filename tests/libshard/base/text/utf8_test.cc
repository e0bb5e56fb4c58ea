#include "libshard/base/text/utf8.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(Utf8, ReadsCharactersOfEveryLength) {
  for (const auto& [text, code, bytes] : {std::tuple("a", U'a', 1u),
                                          {"\u00e9", U'\u00e9', 2u},
                                          {"\u20ac", U'\u20ac', 3u},
                                          {"\U0001f600", U'\U0001f600', 4u},
                                          {"\U0010ffff", U'\U0010ffff', 4u}}) {
    const Character character = FirstCharacter(text);
    EXPECT_TRUE(character.is_utf8) << text;
    EXPECT_EQ(character.code, code);
    EXPECT_EQ(character.bytes, bytes);
    EXPECT_TRUE(IsUtf8(text));
  }
}

TEST(Utf8, RejectsInvalidUtf8) {
  for (const char* text :
       {"\x80", "\xff", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xe2\x82z"}) {
    const Character character = FirstCharacter(text);
    EXPECT_FALSE(character.is_utf8) << text;
    EXPECT_EQ(character.bytes, 1u);
    EXPECT_FALSE(IsUtf8(text));
  }
  EXPECT_FALSE(IsUtf8("good \xe2\x82"));
  EXPECT_TRUE(IsUtf8(""));
}

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("gr\u00f6\u00dfe"), 5u);
  EXPECT_EQ(CountCharacters("\u65e5\u672c\xff"), 3u);
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(WholeCharacters("ab\u20ac", 5), "ab\u20ac");
  EXPECT_EQ(WholeCharacters("ab\u20acc", 4), "ab");
  EXPECT_EQ(WholeCharacters("ab\u20acc", 3), "ab");
  EXPECT_EQ(WholeCharacters("ab\u20acc", 5), "ab\u20ac");
  EXPECT_EQ(WholeCharacters("ab\xe2zz", 3), "ab\xe2");
  EXPECT_EQ(WholeCharacters("abc", 0), "");
}

TEST(Utf8, CountsTheBytesOfAnUnfinishedCharacter) {
  EXPECT_EQ(UnfinishedBytes("a"), 0u);
  EXPECT_EQ(UnfinishedBytes("a\xf0\x9f\x98"), 3u);
  EXPECT_EQ(UnfinishedBytes("\u20ac"), 0u);
  EXPECT_EQ(UnfinishedBytes("a\xe2"), 1u);
  EXPECT_EQ(UnfinishedBytes("\xff"), 0u);
}

}  // namespace
}  // namespace moepack
