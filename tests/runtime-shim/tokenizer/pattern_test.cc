#include "runtime-shim/tokenizer/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Pattern, CutsEveryPieceSeparately) {
  const auto pattern = Pattern::Compile(R"(\s+(?!\S)|\d+)");
  ASSERT_TRUE(pattern);
  const auto words = pattern->Split({"ab 12", "34  ", "", "  x"});
  ASSERT_TRUE(words);
  EXPECT_THAT(*words, ElementsAre("ab ", "12", "34", "  ", " ", " x"));
}

TEST(Pattern, SupportsUnicodeProperties) {
  const auto pattern = Pattern::Compile(R"(\p{Lu}+)");
  ASSERT_TRUE(pattern);
  EXPECT_THAT(*pattern->Split({"a\u00c4\u0416b"}), ElementsAre("a", "\u00c4\u0416", "b"));
}

TEST(Pattern, DoesNotSplitAtEmptyMatches) {
  const auto pattern = Pattern::Compile("x*");
  ASSERT_TRUE(pattern);
  EXPECT_THAT(*pattern->Split({"abx"}), ElementsAre("abx"));
}

TEST(Pattern, AnInvalidExpressionIsRefused) {
  const auto pattern = Pattern::Compile("a(b");
  ASSERT_FALSE(pattern);
  EXPECT_EQ(pattern.error().code, Code::kInvalidArgument);
  EXPECT_THAT(pattern.error().message, HasSubstr("\"a(b\""));
  EXPECT_THAT(pattern.error().message, HasSubstr("at byte 3"));
}

TEST(Pattern, AHostileExpressionIsAnError) {
  const auto pattern = Pattern::Compile("(?:a+)+$");
  ASSERT_TRUE(pattern);
  std::string text(60, 'a');
  text += 'b';
  const auto words = pattern->Split({text});
  ASSERT_FALSE(words);
  EXPECT_EQ(words.error().code, Code::kUnsupported);
  EXPECT_THAT(words.error().message, HasSubstr("found a piece of 61 bytes"));
}

}  // namespace
}  // namespace moepack::runtime
