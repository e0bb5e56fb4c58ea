#include "runtime-shim/tokenizer/fragments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <set>

#include "libshard/base/text/text.h"
#include "tests/runtime-shim/tokenizer/metadata.h"

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Split(const std::vector<TestToken>& tokens, std::string_view text,
                               bool parse_special = true) {
  const auto table = TokenTable::Read("m", TestMetadata("gpt2", "gpt-2", tokens), {});
  std::vector<std::string> out;
  for (const Fragment& fragment : FragmentSplitter(*table).Split(text, parse_special)) {
    out.push_back(fragment.token ? Cat("#", *fragment.token) : std::string(fragment.text));
  }
  return out;
}

TEST(FragmentSplitter, CutsAtEveryOccurrence) {
  EXPECT_THAT(Split({{"<c>", TokenType::kControl}}, "<c>a<c><c> b"),
              ElementsAre("#0", "a", "#0", "#0", " b"));
  EXPECT_THAT(Split({{"<c>", TokenType::kControl}}, "plain"), ElementsAre("plain"));
  EXPECT_THAT(Split({{"<c>", TokenType::kControl}}, ""), IsEmpty());
}

TEST(FragmentSplitter, MatchesTheLongestTextFirst) {
  const std::vector<TestToken> tokens = {{"<c>", TokenType::kControl},
                                         {"a<c>b", TokenType::kUserDefined}};
  EXPECT_THAT(Split(tokens, "a<c>b<c>b"), ElementsAre("#1", "#0", "b"));
}

TEST(FragmentSplitter, MatchesTheLowerIdFirstAmongEqualLengths) {
  EXPECT_THAT(Split({{"bc", TokenType::kControl}, {"ab", TokenType::kControl}}, "abc"),
              ElementsAre("a", "#0"));
}

TEST(FragmentSplitter, MatchesOnlyUserDefinedTokensInPlainText) {
  const std::vector<TestToken> tokens = {{"<c>", TokenType::kControl},
                                         {"<u>", TokenType::kUnknown},
                                         {"<d>", TokenType::kUserDefined},
                                         {"<n>", TokenType::kNormal},
                                         {"<x>", TokenType::kUnused}};
  EXPECT_THAT(Split(tokens, "<c><u><d><n><x>"), ElementsAre("#0", "#1", "#2", "<n><x>"));
  EXPECT_THAT(Split(tokens, "<c><u><d><n>", false), ElementsAre("<c><u>", "#2", "<n>"));
}

// Token by token, as the header describes: the expected result of Split, however it works.
std::vector<std::string> SplitOneByOne(std::vector<TestToken> tokens, const std::string& text) {
  std::vector<size_t> order(tokens.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tokens[a].text.size() > tokens[b].text.size();
  });
  std::vector<std::string> out = {text};
  for (const size_t id : order) {
    std::vector<std::string> cut;
    for (std::string rest : out) {
      size_t at = 0;
      while (!rest.starts_with('#') && (at = rest.find(tokens[id].text)) != std::string::npos) {
        if (at > 0) cut.push_back(rest.substr(0, at));
        cut.push_back(Cat("#", id));
        rest.erase(0, at + tokens[id].text.size());
      }
      if (!rest.empty()) cut.push_back(rest);
    }
    out = std::move(cut);
  }
  return out;
}

TEST(FragmentSplitter, MatchesOverlappingTokensInOrder) {
  std::mt19937 random(7);
  const auto letters = [&](size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::set<std::string> texts;
    while (texts.size() < 6) texts.insert(letters(1 + random() % (round % 2 == 0 ? 5 : 90)));
    std::vector<TestToken> tokens;
    for (const std::string& text : texts) tokens.push_back({text, TokenType::kControl});
    std::shuffle(tokens.begin(), tokens.end(), random);
    std::string text = letters(40);
    for (const TestToken& token : tokens) text += token.text + letters(random() % 3);
    EXPECT_EQ(Split(tokens, text), SplitOneByOne(tokens, text)) << text;
  }
}

// A text used to be searched once for each of them: hours for a hostile vocabulary and a long text.
TEST(FragmentSplitter, TimeDoesNotGrowWithTokensTimesTextLength) {
  std::vector<TestToken> tokens;
  for (int i = 0; i < 200'000; ++i) tokens.push_back({Cat("the ", i), TokenType::kControl});
  std::string text;
  while (text.size() < 200'000) text += "of the first the last the 7 and ";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Split(tokens, text).size(), 2 * text.size() / 32 + 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace moepack::runtime
