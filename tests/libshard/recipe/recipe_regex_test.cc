#include "libshard/recipe/recipe_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text.h"

namespace shard {
namespace {

using testing::HasSubstr;

bool Finds(std::string_view pattern, std::string_view text) {
  const auto regex = RecipeRegex::Compile(pattern);
  EXPECT_TRUE(regex) << pattern << ": " << regex.error().message;
  return regex && regex->Search(text);
}

std::string ErrorOf(std::string_view pattern) {
  const auto regex = RecipeRegex::Compile(pattern);
  if (regex) return "";
  EXPECT_EQ(regex.error().code, Code::kInvalidArgument);
  return regex.error().message;
}

TEST(RecipeRegex, FindsALiteralAnywhereInTheName) {
  EXPECT_TRUE(Finds("ffn_down", "blk.3.ffn_down_exps.weight"));
  EXPECT_TRUE(Finds("blk", "blk.3.ffn_down_exps.weight"));
  EXPECT_TRUE(Finds("weight", "blk.3.ffn_down_exps.weight"));
  EXPECT_FALSE(Finds("ffn_downs", "blk.3.ffn_down_exps.weight"));
  EXPECT_FALSE(Finds("weights", "blk.3.ffn_down_exps.weight"));
}

TEST(RecipeRegex, HoldsToTheEndsOfTheName) {
  EXPECT_TRUE(Finds("^output", "output.weight"));
  EXPECT_FALSE(Finds("^output", "blk.0.attn_output.weight"));
  EXPECT_TRUE(Finds("weight$", "output.weight"));
  EXPECT_FALSE(Finds("output$", "output.weight"));
  EXPECT_TRUE(Finds("^$", ""));
  EXPECT_FALSE(Finds("a^b", "ab"));
}

TEST(RecipeRegex, TakesADotForAnyCharacterAndAnEscapedOneForItself) {
  EXPECT_TRUE(Finds("blk.1.", "blk_10."));
  EXPECT_FALSE(Finds("blk\\.1\\.", "blk.10."));
  EXPECT_TRUE(Finds("blk\\.10\\.", "blk.10."));
}

TEST(RecipeRegex, ReadsSets) {
  EXPECT_TRUE(Finds("blk\\.[0-3]\\.", "blk.2.x"));
  EXPECT_FALSE(Finds("blk\\.[0-3]\\.", "blk.4.x"));
  EXPECT_FALSE(Finds("blk\\.[^0-3]\\.", "blk.2.x"));
  EXPECT_TRUE(Finds("[\\d-]x", "-x"));
  EXPECT_TRUE(Finds("[a-c\\]]$", "]"));
  EXPECT_TRUE(Finds("[-a]$", "-"));
  EXPECT_FALSE(Finds("[]", "a"));
  EXPECT_TRUE(Finds("[^]", "a"));
}

TEST(RecipeRegex, ReadsClassesOfCharacters) {
  EXPECT_TRUE(Finds("blk\\.\\d+\\.", "blk.127.x"));
  EXPECT_FALSE(Finds("blk\\.\\D\\.", "blk.7.x"));
  EXPECT_TRUE(Finds("^\\w+$", "ffn_down_exps"));
  EXPECT_TRUE(Finds("\\W", "a.b"));
  EXPECT_TRUE(Finds("a\\sb", "a b"));
  EXPECT_FALSE(Finds("\\S", " \t"));
}

TEST(RecipeRegex, ReadsGroupsAndAlternatives) {
  const std::string_view pattern = "blk\\.(1|2|1[0-9])\\.ffn_(?:gate|up)_exps";
  EXPECT_TRUE(Finds(pattern, "blk.2.ffn_up_exps.weight"));
  EXPECT_TRUE(Finds(pattern, "blk.17.ffn_gate_exps.weight"));
  EXPECT_FALSE(Finds(pattern, "blk.3.ffn_up_exps.weight"));
  EXPECT_FALSE(Finds(pattern, "blk.2.ffn_down_exps.weight"));
  EXPECT_TRUE(Finds("attn_q|attn_k", "blk.0.attn_k.weight"));
  EXPECT_TRUE(Finds("a(|b)c", "ac"));
}

TEST(RecipeRegex, CountsRepetitions) {
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

TEST(RecipeRegex, ReadsWhatPublishedRecipesUseBeside) {
  EXPECT_TRUE(Finds("^(?!output).*weight", "blk.0.attn_q.weight"));
  EXPECT_FALSE(Finds("^(?!output).*weight", "output.weight"));
  EXPECT_TRUE(Finds("\\bblk\\b", "blk.0.attn_q.weight"));
}

TEST(RecipeRegex, RefusesAnInvalidExpression) {
  EXPECT_THAT(ErrorOf("(a"), HasSubstr("parentheses () that match"));
  EXPECT_THAT(ErrorOf("[a"), HasSubstr("brackets [] that match"));
  EXPECT_THAT(ErrorOf("*a"), HasSubstr("regular expression: expected"));
  EXPECT_THAT(ErrorOf("[z-a]"), HasSubstr("a range from low to high"));
  EXPECT_THAT(ErrorOf("a{2,1}"), HasSubstr("braces {}"));
  EXPECT_THAT(ErrorOf(std::string(5000, 'a')),
              HasSubstr("expected 1 to 4096 characters, found 5000"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("found 0"));
}

TEST(RecipeRegex, RefusesExpressionsThatGrowTooLarge) {
  EXPECT_THAT(ErrorOf("(((a{1000}){1000}){1000}){1000}"), HasSubstr("a simpler expression"));
}

}  // namespace
}  // namespace shard
