#include "runtime-shim/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/libshard/convert/tokenizers/family_pre_tokenizers.h"
#include "tests/runtime-shim/tokenizer/documented_ids.h"

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

using ::testing::IsEmpty;

std::vector<std::string> Words(std::string_view id, std::string_view text) {
  const auto found = PreTokenizer::Find(id);
  if (!found) return {found.error().message};
  const auto words = found->Split(text);
  if (!words) return {words.error().message};
  return {words->begin(), words->end()};
}

TEST(PreTokenizer, EveryDocumentedIdCompilesAndKeepsTheText) {
  const std::string text = "Don't\r\n\r\n  stop: 12345 \u4e2d\u6587ab\u0301 !!\t\u0001~~ \u3000 x ";
  for (const std::string& id : DocumentedIds()) {
    std::string joined;
    for (const std::string& word : Words(id, text)) joined += word;
    EXPECT_EQ(joined, text) << id;
    EXPECT_THAT(Words(id, ""), IsEmpty()) << id;
  }
  EXPECT_GT(DocumentedIds().size(), 30u);
}

TEST(PreTokenizer, UnknownIdsAreRefusedByName) {
  const auto found = PreTokenizer::Find("gemma4\n");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kUnsupported);
  EXPECT_THAT(found.error().message, HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(found.error().message, HasSubstr("\"gemma4\\x0a\""));
  EXPECT_THAT(found.error().hint, HasSubstr("--tokens"));
}

TEST(PreTokenizer, Gpt2JoinsOneSpaceToAWordAndKeepsNumbersWhole) {
  EXPECT_THAT(Words("gpt-2", "I'm  12345 it'S\n\n x"),
              ElementsAre("I", "'m", " ", " 12345", " it", "'", "S", "\n\n", " x"));
}

TEST(PreTokenizer, StarcoderSplitsEveryDigit) {
  EXPECT_THAT(Words("starcoder", "a 12b"), ElementsAre("a", " ", "1", "2", "b"));
  EXPECT_THAT(Words("qwen2", "a 12b"), ElementsAre("a", " ", "1", "2", "b"));
}

TEST(PreTokenizer, Llama3SplitsThreeDigitsAndContractionsOfAnyCase) {
  EXPECT_THAT(Words("llama-bpe", "IT'S 12345!\r\n x"),
              ElementsAre("IT", "'S", " ", "123", "45", "!\r\n", " x"));
}

TEST(PreTokenizer, Qwen35JoinsMarksToWords) {
  EXPECT_THAT(Words("qwen2", "a\u0301b"), ElementsAre("a", "\u0301b"));
  EXPECT_THAT(Words("qwen35", "a\u0301b"), ElementsAre("a\u0301b"));
}

TEST(PreTokenizer, BailingCutsAsQwen2Does) {
  EXPECT_THAT(Words("bailingmoe", "IT'LL 12b \n\n\n x!?\n\n"),
              ElementsAre("IT", "'LL", " ", "1", "2", "b", " \n\n\n", " x", "!?\n\n"));
  EXPECT_THAT(Words("bailingmoe2", "a\r\n  \n b"), ElementsAre("a", "\r\n  \n", " b"));
}

// The names that the converter writes (libshard/families).
TEST(PreTokenizer, TheNameOfEveryFamilyIsKnown) {
  const std::vector<std::string> names = FamilyPreTokenizers();
  EXPECT_GT(names.size(), 10u);
  for (const std::string& name : names) EXPECT_TRUE(PreTokenizer::Find(name)) << name;
}

TEST(PreTokenizer, LagunaCutsAtLineEndsBeforeAnythingElse) {
  EXPECT_THAT(Words("laguna", "it's 12 \n\n  x!\n"),
              ElementsAre("it", "'s", " ", "1", "2", " ", "\n\n", " ", " x", "!", "\n"));
}

TEST(PreTokenizer, ExaoneMoeJoinsWordsBySingleSpaces) {
  EXPECT_THAT(Words("exaone-moe", "one two  three, it's 12.\n\n"),
              ElementsAre("one two", " ", " three", ",", " it", "'s", " ", "1", "2", ".\n", "\n"));
}

TEST(PreTokenizer, AfmoeCountsDigitsFromTheLast) {
  EXPECT_THAT(Words("afmoe", "a 1234567 89 123456x"),
              ElementsAre("a", " ", "1", "234", "567", " ", "89", " ", "123", "456", "x"));
  EXPECT_THAT(Words("afmoe", "x.foo \u4e2d\u6587\u3042ok"),
              ElementsAre("x", ".foo", " ", "\u4e2d\u6587\u3042", "ok"));
  EXPECT_THAT(Words("afmoe",
                    "]\u4e2d\x1c"
                    "3\x1c"
                    "4567"),
              ElementsAre("]", "\u4e2d",
                          "\x1c"
                          "3",
                          "\x1c"
                          "4",
                          "567"));
}

TEST(PreTokenizer, Gpt4oCutsWhereCapitalsBegin) {
  EXPECT_THAT(Words("gpt-4o", "camelCase HTTPServer's a/b//\n"),
              ElementsAre("camel", "Case", " HTTPServer's", " a", "/b", "//\n"));
  EXPECT_THAT(Words("tekken", "it's 12"), ElementsAre("it", "'s", " ", "1", "2"));
}

TEST(PreTokenizer, KimiSeparatesHan) {
  EXPECT_THAT(Words("kimi-k2", "ab\u4e2d\u6587cd's \u3042"),
              ElementsAre("ab", "\u4e2d\u6587", "cd's", " \u3042"));
}

TEST(PreTokenizer, DeepSeek3JoinsPunctuationWithLetters) {
  EXPECT_THAT(Words("deepseek-v3", "x.foo 1234\u4e2d\u6587?~ ok"),
              ElementsAre("x", ".foo", " ", "123", "4", "\u4e2d\u6587", "?~", " ok"));
}

TEST(PreTokenizer, DeepSeekLlmCutsStepByStep) {
  EXPECT_THAT(Words("deepseek-llm", "one two\n\u4e2d 123  "),
              ElementsAre("one", " two", "\n", "\u4e2d", " ", "123", "  "));
}

TEST(PreTokenizer, DefaultCutsNumbersInThrees) {
  EXPECT_THAT(Words("default", "a 1234$"), ElementsAre("a", " ", "123", "4", "$"));
}

TEST(PreTokenizer, TheVowelSeparatorIsNotASpace) {
  EXPECT_THAT(Words("gpt-2", "a\u180e\u180e"), ElementsAre("a", "\u180e\u180e"));
  EXPECT_THAT(Words("gpt-2", "a\u3000\u3000"), ElementsAre("a", "\u3000\u3000"));
}

TEST(PreTokenizer, CutsLongRunsOfOneCharacterQuickly) {
  for (const std::string& id : DocumentedIds()) {
    const auto found = PreTokenizer::Find(id);
    ASSERT_TRUE(found);
    for (const char* unit : {"a", "A", " ", "\n", "'", "1", "~", "\u4e2d", "\u0301", "\r \t"}) {
      std::string text;
      while (text.size() < 300'000) text += unit;
      EXPECT_TRUE(found->Split(text + "x")) << id << " and " << unit;
    }
  }
}

}  // namespace

}  // namespace moepack::runtime
