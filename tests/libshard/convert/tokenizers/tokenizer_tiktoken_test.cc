#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "a", "b", "ab", a space, "ab ", byte 0xff; then the tokens that tokenizer_config.json names.
constexpr const char* kRanks = "YQ== 0\nYg== 1\nYWI= 2\nIA== 3\nYWIg 4\n/w== 5\n";

struct RankFiles {
  std::string ranks = kRanks;
  std::string config = R"({"added_tokens_decoder": {
    "6": {"content": "[BOS]", "special": true}, "8": {"content": "<think>", "special": false}}})";
  std::string tokenizer = {}, pre = {};
  uint32_t tokens = 10;
};

Result<Vocabulary> ReadRanks(const RankFiles& files) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "tiktoken.model") << files.ranks;
  std::ofstream(dir / "tokenizer_config.json") << files.config;
  if (!files.tokenizer.empty()) std::ofstream(dir / "tokenizer.json") << files.tokenizer;
  SHARD_TRY(const TokenizerFiles read,
            TokenizerFiles::Read(std::make_shared<LocalTree>(dir.path())));
  return ReadTiktokenOrBpe({read, files.tokens, "kimi-k2", files.pre});
}

std::string RanksError(const RankFiles& files) {
  const auto vocabulary = ReadRanks(files);
  EXPECT_FALSE(vocabulary);
  return vocabulary ? "" : vocabulary.error().message;
}

TEST(Tiktoken, SpellsTokensInTheAlphabetOfByteLevelBpe) {
  const auto vocabulary = ReadRanks({});
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->model, "gpt2");
  EXPECT_EQ(vocabulary->pre, "kimi-k2");
  EXPECT_THAT(vocabulary->tokens,
              ElementsAre("a", "b", "ab", "\u0120", "ab\u0120", "\u00ff", "[BOS]",
                          "<|reserved_token_7|>", "<think>", "<|reserved_token_9|>"));
}

TEST(Tiktoken, EverythingAfterTheRanksIsAControlToken) {
  const auto vocabulary = ReadRanks({});
  for (size_t id = 0; id < 10; ++id) {
    EXPECT_EQ(vocabulary->types[id], id < 6 ? TokenType::kNormal : TokenType::kControl) << id;
  }
}

TEST(Tiktoken, RecoversMergesFromTheRanks) {
  EXPECT_THAT(ReadRanks({})->merges, ElementsAre("a b", "ab \u0120"));
}

TEST(Tiktoken, ATokenThatNoMergeMakesHasNoMerge) {
  // "abc" without "ab" or "bc" before it.
  const auto vocabulary = ReadRanks({.ranks = "YQ== 0\nYg== 1\nYw== 2\nYWJj 3\nYWI= 4\n"});
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_THAT(vocabulary->merges, ElementsAre("a b"));
}

TEST(Tiktoken, IdsBeyondTheReservedOnesArePadding) {
  const auto vocabulary = ReadRanks({.tokens = 300});
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->tokens[263], "<|reserved_token_263|>");
  EXPECT_EQ(vocabulary->tokens[264], "[PAD264]");
  EXPECT_EQ(vocabulary->types[264], TokenType::kUnused);
}

TEST(Tiktoken, UsesTheGivenPreTokenizer) { EXPECT_EQ(ReadRanks({.pre = "gpt-4o"})->pre, "gpt-4o"); }

TEST(Tiktoken, ATokenizerJsonTakesPrecedence) {
  const auto vocabulary = ReadRanks({.tokenizer = R"({"model": {"type": "BPE", "vocab": {"x": 0},
    "merges": []}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}})"});
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->tokens[0], "x");
}

TEST(Tiktoken, LinesWithoutATokenAndARankAreCorrupt) {
  EXPECT_THAT(RanksError({.ranks = "YQ== 0\nYg==\n"}),
              HasSubstr("line 2: expected a token and a rank"));
  EXPECT_THAT(RanksError({.ranks = "YQ== x\n"}), HasSubstr("line 1: expected a token and a rank"));
  EXPECT_THAT(RanksError({.ranks = "YQ== 10\n"}),
              HasSubstr("rank below 10 (rows of the embedding)"));
  EXPECT_THAT(RanksError({.ranks = "Y*== 0\n"}), HasSubstr("line 1: expected base64"));
  EXPECT_THAT(RanksError({.ranks = "YQ=== 0\n"}), HasSubstr("expected base64"));
  EXPECT_THAT(RanksError({.ranks = "==== 0\n"}), HasSubstr("expected base64"));
  EXPECT_THAT(RanksError({.ranks = "\n"}), HasSubstr("expected tokens, found none"));
}

TEST(Tiktoken, TokensAndRanksMustBeDistinct) {
  EXPECT_THAT(RanksError({.ranks = "YQ== 0\nYQ== 1\n"}),
              HasSubstr("expected one rank, found 0 and 1"));
  EXPECT_THAT(RanksError({.ranks = "YQ== 0\nYg== 0\n"}), HasSubstr("rank 0: expected one token"));
}

TEST(Tiktoken, RefusesATokenThatIsTooLong) {
  std::string line(1368, 'Y');
  line += " 0\n";
  EXPECT_THAT(RanksError({.ranks = line}), HasSubstr("expected at most 1024 bytes, found 1026"));
}

TEST(Tiktoken, AnAddedTokenMustHaveItsOwnId) {
  EXPECT_THAT(RanksError({.config = R"({"added_tokens_decoder": {"2": {"content": "[BOS]"}}})"}),
              HasSubstr("\"[BOS]\": expected an id without a rank, found 2"));
  EXPECT_THAT(RanksError({.config = R"({"added_tokens_decoder": {"10": {"content": "[BOS]"}}})"}),
              HasSubstr("expected an id below 10"));
}

Result<Vocabulary> ReadHunyuanRanks(const std::string& ranks, uint32_t tokens = 300) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "hy.tiktoken") << ranks;
  SHARD_TRY(const TokenizerFiles read,
            TokenizerFiles::Read(std::make_shared<LocalTree>(dir.path())));
  return ReadHunyuanRanksOrBpe({read, tokens, "hunyuan", ""});
}

TEST(HunyuanRanks, NumberDistinctTokensByLine) {
  const auto vocabulary = ReadHunyuanRanks("YQ== 0\nYg== 7\nYQ== 2\nYWI= 9\n");
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->model, "gpt2");
  EXPECT_EQ(vocabulary->pre, "hunyuan");
  EXPECT_THAT(std::vector(vocabulary->tokens.begin(), vocabulary->tokens.begin() + 9),
              ElementsAre("a", "b", "ab", "<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>",
                          "<|pad|>", "<|extra_0|>"));
  EXPECT_THAT(vocabulary->merges, ElementsAre("a b"));
}

TEST(HunyuanRanks, AreFollowedByTheSpecialTokensOfItsCode) {
  const auto vocabulary = ReadHunyuanRanks("YQ== 0\n");
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->tokens[210], "<|extra_204|>");
  EXPECT_EQ(vocabulary->tokens[211], "[PAD211]");
  for (size_t id = 0; id < 211; ++id) {
    EXPECT_EQ(vocabulary->types[id], id == 0 ? TokenType::kNormal : TokenType::kControl) << id;
  }
  const auto small = ReadHunyuanRanks("YQ== 0\n", 210);
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error().message, HasSubstr("expected an id below 210"));
}

}  // namespace
}  // namespace moepack
