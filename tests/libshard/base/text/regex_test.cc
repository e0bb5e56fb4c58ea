#include "libshard/base/text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::HasSubstr;

bool Finds(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex) << pattern << ": " << regex.error().message;
  return regex && regex->Search(text).value();
}

std::string RegexErrorOf(std::string_view pattern) {
  const auto regex = Regex::Compile(pattern);
  if (regex) return "";
  EXPECT_EQ(regex.error().code, Code::kInvalidArgument);
  return regex.error().message;
}

TEST(Regex, FindsALiteralAnywhereInTheName) {
  EXPECT_TRUE(Finds("ffn_down", "blk.3.ffn_down_exps.weight"));
  EXPECT_TRUE(Finds("blk", "blk.3.ffn_down_exps.weight"));
  EXPECT_TRUE(Finds("weight", "blk.3.ffn_down_exps.weight"));
  EXPECT_FALSE(Finds("ffn_downs", "blk.3.ffn_down_exps.weight"));
  EXPECT_FALSE(Finds("weights", "blk.3.ffn_down_exps.weight"));
}

TEST(Regex, AnchorsToTheStartAndEndOfTheName) {
  EXPECT_TRUE(Finds("^output", "output.weight"));
  EXPECT_FALSE(Finds("^output", "blk.0.attn_output.weight"));
  EXPECT_TRUE(Finds("weight$", "output.weight"));
  EXPECT_FALSE(Finds("output$", "output.weight"));
  EXPECT_TRUE(Finds("^$", ""));
  EXPECT_FALSE(Finds("a^b", "ab"));
}

TEST(Regex, ADotMatchesAnyCharacterAndAnEscapedDotOnlyItself) {
  EXPECT_TRUE(Finds("blk.1.", "blk_10."));
  EXPECT_FALSE(Finds("blk\\.1\\.", "blk.10."));
  EXPECT_TRUE(Finds("blk\\.10\\.", "blk.10."));
}

TEST(Regex, ALiteralMatchesItselfAlone) {
  for (const std::string text : {"blk.3.ffn", "a+b", "(x|y)*[z]{2}?", "^$", "c:\\d"}) {
    const std::string pattern = Cat("^", Regex::Literal(text), "$");
    EXPECT_TRUE(Finds(pattern, text)) << pattern;
    EXPECT_FALSE(Finds(pattern, text + "b")) << pattern;
  }
  EXPECT_EQ(Regex::Literal("blk.3.ffn"), "blk\\.3\\.ffn");
}

TEST(Regex, ReadsSets) {
  EXPECT_TRUE(Finds("blk\\.[0-3]\\.", "blk.2.x"));
  EXPECT_FALSE(Finds("blk\\.[0-3]\\.", "blk.4.x"));
  EXPECT_FALSE(Finds("blk\\.[^0-3]\\.", "blk.2.x"));
  EXPECT_TRUE(Finds("[\\d-]x", "-x"));
  EXPECT_TRUE(Finds("[a-c\\]]$", "]"));
  EXPECT_TRUE(Finds("[-a]$", "-"));
  EXPECT_FALSE(Finds("[]", "a"));
  EXPECT_TRUE(Finds("[^]", "a"));
}

TEST(Regex, ReadsClassesOfCharacters) {
  EXPECT_TRUE(Finds("blk\\.\\d+\\.", "blk.127.x"));
  EXPECT_FALSE(Finds("blk\\.\\D\\.", "blk.7.x"));
  EXPECT_TRUE(Finds("^\\w+$", "ffn_down_exps"));
  EXPECT_TRUE(Finds("\\W", "a.b"));
  EXPECT_TRUE(Finds("a\\sb", "a b"));
  EXPECT_FALSE(Finds("\\S", " \t"));
}

TEST(Regex, ReadsGroupsAndAlternatives) {
  const std::string_view pattern = "blk\\.(1|2|1[0-9])\\.ffn_(?:gate|up)_exps";
  EXPECT_TRUE(Finds(pattern, "blk.2.ffn_up_exps.weight"));
  EXPECT_TRUE(Finds(pattern, "blk.17.ffn_gate_exps.weight"));
  EXPECT_FALSE(Finds(pattern, "blk.3.ffn_up_exps.weight"));
  EXPECT_FALSE(Finds(pattern, "blk.2.ffn_down_exps.weight"));
  EXPECT_TRUE(Finds("attn_q|attn_k", "blk.0.attn_k.weight"));
  EXPECT_TRUE(Finds("a(|b)c", "ac"));
}

TEST(Regex, CountsRepetitions) {
  EXPECT_TRUE(Finds("^ab*c$", "ac"));
  EXPECT_TRUE(Finds("^ab*c$", "abbbc"));
  EXPECT_FALSE(Finds("^ab+c$", "ac"));
  EXPECT_TRUE(Finds("^ab?c$", "abc"));
  EXPECT_FALSE(Finds("^ab?c$", "abbc"));
  EXPECT_TRUE(Finds("^[0-9]{1,2}$", "47"));
  EXPECT_FALSE(Finds("^[0-9]{1,2}$", "470"));
  EXPECT_TRUE(Finds("^a{3}$", "aaa"));
  EXPECT_FALSE(Finds("^a{3}$", "aa"));
  EXPECT_TRUE(Finds("^a{2,}$", "aaaaa"));
  EXPECT_FALSE(Finds("^a{2,}$", "a"));
  EXPECT_TRUE(Finds("^a.*?b+?$", "axxbb"));
  EXPECT_TRUE(Finds("^(ab){0}c$", "c"));
}

TEST(Regex, ReadsLookaheadsAndWordBoundaries) {
  EXPECT_TRUE(Finds("^(?!output).*weight", "blk.0.attn_q.weight"));
  EXPECT_FALSE(Finds("^(?!output).*weight", "output.weight"));
  EXPECT_TRUE(Finds("\\bblk\\b", "blk.0.attn_q.weight"));
}

TEST(Regex, ReadsWhatStdRegexReadsDifferentlyFromPerl) {
  EXPECT_TRUE(Finds("^\\u0061\\x62$", "ab"));
  EXPECT_FALSE(Finds("weight$", "weight\n"));
  EXPECT_FALSE(Finds("^\\w$", "\u00e4"));
  EXPECT_TRUE(Finds("[[:digit:]]", "blk.7"));
}

TEST(Regex, MatchesMultibyteCharactersAsOne) {
  EXPECT_TRUE(Finds("^.$", "\u65e5"));
  EXPECT_TRUE(Finds("^[\u00e4\u00f6]$", "\u00f6"));
}

TEST(Regex, SaysWhereAnExpressionBecomesInvalid) {
  EXPECT_EQ(RegexErrorOf("(a"),
            "regular expression \"(a\": expected a valid one, found at byte 2: missing closing "
            "parenthesis");
  EXPECT_THAT(RegexErrorOf("[a"), HasSubstr("found at byte 2: missing terminating ]"));
  EXPECT_THAT(RegexErrorOf("*a"), HasSubstr("found at byte 0: quantifier does not follow"));
  EXPECT_THAT(RegexErrorOf("[z-a]"), HasSubstr("range out of order"));
  EXPECT_THAT(RegexErrorOf("a{2,1}"), HasSubstr("numbers out of order"));
  EXPECT_THAT(RegexErrorOf("a\xff"), HasSubstr("found at byte 1: UTF-8 error"));
  EXPECT_THAT(RegexErrorOf(std::string(5000, 'a')),
              HasSubstr("expected 1 to 4096 bytes, found 5000"));
  EXPECT_THAT(RegexErrorOf(""), HasSubstr("found 0"));
}

TEST(Regex, RefusesExpressionsThatGrowTooLarge) {
  EXPECT_THAT(RegexErrorOf("(((a{1000}){1000}){1000}){1000}"), HasSubstr("too large"));
  EXPECT_THAT(RegexErrorOf(std::string(2000, '(') + std::string(2000, ')')),
              HasSubstr("too deeply nested"));
}

std::string SearchError(std::string_view pattern, const std::string& text) {
  const auto found = Regex::Compile(pattern)->Search(text);
  if (found) return "";
  EXPECT_EQ(found.error().code, Code::kInvalidArgument);
  return found.error().message;
}

TEST(Regex, AHostileExpressionIsAnErrorAndNotAStackOverflow) {
  EXPECT_THAT(SearchError("(?:a+)+$", Cat(std::string(60, 'a'), "b")),
              HasSubstr("expected at most 1000000 steps and 64 MiB for a text of 61 bytes, found: "
                        "match limit exceeded"));
  EXPECT_THAT(SearchError("^(?:a|b|c)*d", Cat(std::string(10'000'000, 'a'), "d")),
              HasSubstr("limit exceeded"));
  EXPECT_THAT(SearchError("^(a|(?R))*d", std::string(100'000, 'a')),
              testing::AnyOf("", HasSubstr("limit exceeded")));
}

TEST(Regex, TextThatIsNotUtf8IsAnError) {
  EXPECT_THAT(SearchError("a", "\xff"), HasSubstr("UTF-8 error"));
}

TEST(Regex, AMatcherFindsOneMatchAfterTheOther) {
  const Regex regex = Regex::Compile("a+").value();
  Regex::Matcher matcher(regex);
  const auto first = matcher.Find("xaab.a", 0).value();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->begin, 1u);
  EXPECT_EQ(first->end, 3u);
  EXPECT_EQ(matcher.Find("xaab.a", 3).value()->begin, 5u);
  EXPECT_FALSE(matcher.Find("xaab.a", 6).value());
}

}  // namespace
}  // namespace moepack
