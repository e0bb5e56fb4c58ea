#include "runtime-shim/tokenizer/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/runtime-shim/tokenizer/metadata.h"

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The texts of a word's symbols; the result of every merge is a token.
class Bpe {
 public:
  explicit Bpe(const std::vector<std::string>& merges) {
    std::vector<TestToken> more;
    for (std::string text : merges) {
      text.erase(text.find(' '), 1);
      more.push_back({text});
    }
    const GgufMetadata metadata = TestBpe("gpt-2", more, merges);
    table_.emplace(std::move(TokenTable::Read("m", metadata, {})).value());
    merges_.emplace(std::move(Merges::Read("m", metadata, *table_, true)).value());
  }
  std::vector<std::string> Cut(std::string_view word) const {
    std::vector<std::string> texts;
    for (const uint32_t symbol : merges_->Apply(word)) texts.push_back(table_->text(symbol));
    return texts;
  }

 private:
  std::optional<TokenTable> table_;
  std::optional<Merges> merges_;
};

TEST(Merges, AppliesTheLowestRankFirst) {
  EXPECT_THAT(Bpe({"b c", "a b"}).Cut("abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(Bpe({"a b", "b c", "ab c"}).Cut("abc"), ElementsAre("abc"));
}

TEST(Merges, AppliesTheLeftmostOfEqualRanksFirst) {
  EXPECT_THAT(Bpe({"a a"}).Cut("aaaaa"), ElementsAre("aa", "aa", "a"));
}

TEST(Merges, CutsAWordWithoutMergesIntoBytes) {
  EXPECT_THAT(Bpe({"a b"}).Cut("\u00e9 "), ElementsAre("\u00c3", "\u00a9", "\u0120"));
  EXPECT_THAT(Bpe({"a b"}).Cut(""), ElementsAre());
}

TEST(Merges, MatchesMergingOnePairAtATime) {
  std::mt19937 random(7);
  std::vector<std::string> merges;
  std::vector<std::string> pieces = {"a", "b", "c"};
  while (merges.size() < 60) {
    const std::string merge =
        pieces[random() % pieces.size()] + " " + pieces[random() % pieces.size()];
    std::string result = merge;
    result.erase(result.find(' '), 1);
    if (std::find(pieces.begin(), pieces.end(), result) != pieces.end()) continue;
    merges.push_back(merge);
    pieces.push_back(result);
  }
  const Bpe bpe(merges);
  for (int round = 0; round < 300; ++round) {
    std::string word;
    for (size_t i = random() % 40; i > 0; --i) word += static_cast<char>('a' + random() % 3);
    std::vector<std::string> expected;
    for (const char c : word) expected.emplace_back(1, c);
    for (size_t rank = 0; rank < merges.size();) {
      bool merged = false;
      for (size_t i = 0; i + 1 < expected.size() && !merged; ++i) {
        merged = expected[i] + " " + expected[i + 1] == merges[rank];
        if (!merged) continue;
        expected[i] += expected[i + 1];
        expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
      rank = merged ? 0 : rank + 1;
    }
    EXPECT_EQ(bpe.Cut(word), expected) << word;
  }
}

TEST(Merges, CutsAMegabyteQuickly) {
  const Bpe bpe({"a a", "aa aa", "aaaa aaaa"});
  EXPECT_EQ(bpe.Cut(std::string(1 << 20, 'a')), std::vector<std::string>(1 << 17, "aaaaaaaa"));
}

TEST(Merges, PiecesThatAreNotTokensKeepTheirText) {
  const GgufMetadata metadata = TestBpe("gpt-2", {}, {"a b", "a b"});
  const auto table = TokenTable::Read("m", metadata, {});
  const auto merges = Merges::Read("m", metadata, *table, true);
  ASSERT_TRUE(merges);
  const std::vector<uint32_t> symbols = merges->Apply("xab");
  ASSERT_THAT(symbols, ElementsAre(uint32_t{'x'}, 256u));
  EXPECT_EQ(merges->text(256), "ab");
}

std::string ErrorOf(const GgufMetadata& metadata, bool required = true) {
  const auto table = TokenTable::Read("m.gguf", metadata, {});
  const auto merges = Merges::Read("m.gguf", metadata, *table, required);
  if (merges) return "no error";
  EXPECT_EQ(merges.error().code, Code::kCorrupt);
  return merges.error().message;
}

TEST(Merges, EntriesThatAreNotPairsAreRefused) {
  for (const char* merge : {"ab", "", "a b c", " a", "a ", "a  b", " "}) {
    EXPECT_THAT(ErrorOf(TestBpe("gpt-2", {}, {"a b", merge})),
                HasSubstr("m.gguf: tokenizer.ggml.merges: merge 1: expected two pieces"))
        << merge;
  }
}

TEST(Merges, MayBeMissingIfTheModelNeedsNone) {
  GgufMetadata metadata = TestBpe("gpt-2", {});
  EXPECT_EQ(ErrorOf(metadata), "no error");
  metadata.Remove("tokenizer.ggml.merges");
  EXPECT_THAT(ErrorOf(metadata), HasSubstr("expected a list of strings, found nothing"));
  EXPECT_EQ(ErrorOf(metadata, false), "no error");
  metadata.Set("tokenizer.ggml.merges", GgufValue::U32(1));
  EXPECT_THAT(ErrorOf(metadata), HasSubstr("found another type"));
}

}  // namespace
}  // namespace moepack::runtime
