#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/text.h"
#include "runtime-shim/tokenizer/fragments.h"
#include "tests/runtime-shim/tokenizer_metadata.h"

namespace runtime {
namespace {

using shard::TokenType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Split(const std::vector<TestToken>& tokens, std::string_view text,
                               bool parse_special = true) {
  const auto table = TokenTable::Read("m", TestMetadata("gpt2", "gpt-2", tokens), {});
  std::vector<std::string> out;
  for (const Fragment& fragment : FragmentSplitter(*table).Split(text, parse_special)) {
    out.push_back(fragment.token ? shard::Cat("#", *fragment.token) : std::string(fragment.text));
  }
  return out;
}

TEST(FragmentSplitter, CutsAtEveryOccurrence) {
  EXPECT_THAT(Split({{"<c>", TokenType::kControl}}, "<c>a<c><c> b"),
              ElementsAre("#0", "a", "#0", "#0", " b"));
  EXPECT_THAT(Split({{"<c>", TokenType::kControl}}, "plain"), ElementsAre("plain"));
  EXPECT_THAT(Split({{"<c>", TokenType::kControl}}, ""), IsEmpty());
}

TEST(FragmentSplitter, TheLongestTextGoesFirst) {
  const std::vector<TestToken> tokens = {{"<c>", TokenType::kControl},
                                         {"a<c>b", TokenType::kUserDefined}};
  EXPECT_THAT(Split(tokens, "a<c>b<c>b"), ElementsAre("#1", "#0", "b"));
}

TEST(FragmentSplitter, OfEqualLengthTheLowerIdGoesFirst) {
  EXPECT_THAT(Split({{"bc", TokenType::kControl}, {"ab", TokenType::kControl}}, "abc"),
              ElementsAre("a", "#0"));
}

TEST(FragmentSplitter, OnlyUserDefinedTokensArePartOfAnyText) {
  const std::vector<TestToken> tokens = {{"<c>", TokenType::kControl},
                                         {"<u>", TokenType::kUnknown},
                                         {"<d>", TokenType::kUserDefined},
                                         {"<n>", TokenType::kNormal},
                                         {"<x>", TokenType::kUnused}};
  EXPECT_THAT(Split(tokens, "<c><u><d><n><x>"), ElementsAre("#0", "#1", "#2", "<n><x>"));
  EXPECT_THAT(Split(tokens, "<c><u><d><n>", false), ElementsAre("<c><u>", "#2", "<n>"));
}

}  // namespace
}  // namespace runtime
