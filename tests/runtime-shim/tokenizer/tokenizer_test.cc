#include "runtime-shim/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime-shim/tokenizer/metadata.h"

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ids = std::vector<uint32_t>;

std::unique_ptr<Tokenizer> Open(const GgufMetadata& metadata) {
  auto tokenizer = OpenTokenizer("m.gguf", metadata);
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message);
  return tokenizer ? std::move(tokenizer).value() : nullptr;
}

Ids Encode(const GgufMetadata& metadata, std::string_view text, Tokenizer::Options options = {}) {
  const auto tokenizer = Open(metadata);
  if (tokenizer == nullptr) return {};
  const auto ids = tokenizer->Encode(text, options);
  EXPECT_TRUE(ids) << (ids ? "" : ids.error().message);
  return ids ? *ids : Ids{};
}

std::string TokenizerErrorOf(const GgufMetadata& metadata, Code code) {
  const auto tokenizer = OpenTokenizer("m.gguf", metadata);
  if (tokenizer) return "no error";
  EXPECT_EQ(tokenizer.error().code, code);
  return tokenizer.error().message;
}

TEST(OpenTokenizer, OtherModelsAreRefusedByName) {
  GgufMetadata metadata = TestBpe("gpt-2", {});
  metadata.Set("tokenizer.ggml.model", GgufValue::String("bert"));
  EXPECT_THAT(TokenizerErrorOf(metadata, Code::kUnsupported),
              HasSubstr("m.gguf: tokenizer.ggml.model: expected \"gpt2\", \"llama\" or \"gemma4\", "
                        "found \"bert\""));
  metadata.Set("tokenizer.ggml.model", GgufValue::U32(1));
  EXPECT_THAT(TokenizerErrorOf(metadata, Code::kCorrupt),
              HasSubstr("expected a string, found u32"));
  metadata.Remove("tokenizer.ggml.model");
  EXPECT_THAT(TokenizerErrorOf(metadata, Code::kUnsupported), HasSubstr("found nothing"));
}

TEST(OpenTokenizer, OtherPreTokenizersAreRefusedByName) {
  EXPECT_THAT(
      TokenizerErrorOf(TestBpe("viking", {}), Code::kUnsupported),
      HasSubstr("m.gguf: tokenizer.ggml.pre: expected a pre-tokenizer of docs/runtime-shim.md"
                ", found \"viking\""));
  GgufMetadata metadata = TestBpe("gpt-2", {});
  metadata.Set("tokenizer.ggml.pre", GgufValue::Bool(true));
  EXPECT_THAT(TokenizerErrorOf(metadata, Code::kCorrupt),
              HasSubstr("expected a string, found bool"));
  metadata.Remove("tokenizer.ggml.pre");
  EXPECT_THAT(Encode(metadata, "12"), ElementsAre('1', '2'));
}

TEST(OpenTokenizer, KimiNeedsNoMerges) {
  for (const bool kimi : {true, false}) {
    GgufMetadata metadata = TestBpe(kimi ? "kimi-k2" : "qwen2", {});
    metadata.Remove("tokenizer.ggml.merges");
    if (kimi) {
      EXPECT_THAT(Encode(metadata, "ab"), ElementsAre('a', 'b'));
    } else {
      EXPECT_THAT(TokenizerErrorOf(metadata, Code::kCorrupt), HasSubstr("tokenizer.ggml.merges"));
    }
  }
}

TEST(Tokenizer, BpeMergesOnlyWithinWords) {
  const GgufMetadata metadata =
      TestBpe("gpt-2", {{"ab"}, {"\u0120ab"}, {"b\u0120"}}, {"b \u0120", "a b", "\u0120 ab"});
  EXPECT_THAT(Encode(metadata, "ab ab"), ElementsAre(256, 257));
}

TEST(Tokenizer, SomeModelsMatchWholeWordsFirst) {
  const std::vector<TestToken> more = {{"abc"}};
  EXPECT_THAT(Encode(TestBpe("gpt-2", more), "abc"), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(Encode(TestBpe("tekken", more), "abc", {.add_special = false}), ElementsAre(256));
}

TEST(Tokenizer, SplitsBpeSymbolsWithoutTokens) {
  // The merged "ab" is not a token, but its bytes are. Anything without a token is lost.
  EXPECT_THAT(Encode(TestBpe("gpt-2", {}, {"a b"}), "ab"), ElementsAre('a', 'b'));
  const GgufMetadata small = TestMetadata("gpt2", "gpt-2", {{"a"}, {"b"}});
  EXPECT_THAT(Encode(small, "axb\u00e9a"), ElementsAre(0, 1, 0));
}

TEST(Tokenizer, TheModelDecidesWhichTokensSurroundAText) {
  GgufMetadata metadata = TestBpe("gpt-2", {{"<b>", TokenType::kControl}, {"<e>"}});
  EXPECT_THAT(Encode(metadata, "a"), ElementsAre('a'));
  metadata.Set("tokenizer.ggml.bos_token_id", GgufValue::U32(256));
  metadata.Set("tokenizer.ggml.eos_token_id", GgufValue::U32(257));
  metadata.Set("tokenizer.ggml.add_bos_token", GgufValue::Bool(true));
  metadata.Set("tokenizer.ggml.add_eos_token", GgufValue::Bool(true));
  EXPECT_THAT(Encode(metadata, "a"), ElementsAre(256, 'a', 257));
  EXPECT_THAT(Encode(metadata, ""), ElementsAre(256, 257));
  EXPECT_THAT(Encode(metadata, "a", {.add_special = false}), ElementsAre('a'));
}

TEST(Tokenizer, PreTokenizersHaveADefaultBeginningToken) {
  EXPECT_THAT(Encode(TestBpe("llama-bpe", {}), ""), ElementsAre(11));
  EXPECT_EQ(Open(TestBpe("gpt-2", {}))->bos(), 11u);
  EXPECT_EQ(Open(TestBpe("glm4", {}))->bos(), std::nullopt);
  EXPECT_EQ(Open(TestBpe("glm4", {}))->eos(), 11u);
}

TEST(Tokenizer, ParsesControlTokensInTheTextOnRequest) {
  const GgufMetadata metadata = TestBpe("gpt-2", {{"<|im_end|>", TokenType::kControl}});
  EXPECT_THAT(Encode(metadata, "a<|im_end|>"), ElementsAre('a', 256));
  EXPECT_EQ(Encode(metadata, "<|im_end|>", {.parse_special = false}).size(), 10u);
  EXPECT_TRUE(Open(metadata)->IsEnd(256));
  EXPECT_FALSE(Open(metadata)->IsEnd(0));
}

TEST(Tokenizer, DecodesBpePiecesToBytes) {
  const auto tokenizer = Open(TestBpe("gpt-2", {{"\u0120a"},
                                                {"<c>", TokenType::kControl},
                                                {"<d>\u0120", TokenType::kUserDefined},
                                                {"<x>", TokenType::kUnused}}));
  EXPECT_EQ(tokenizer->size(), 260u);
  EXPECT_EQ(tokenizer->Piece(0xe9), "\xe9");
  EXPECT_EQ(tokenizer->Piece(256), " a");
  EXPECT_EQ(tokenizer->Piece(257), "");
  EXPECT_EQ(tokenizer->Piece(258), "<d>\u0120");
  EXPECT_EQ(tokenizer->Piece(259), "");
  EXPECT_EQ(tokenizer->Piece(260), "");
}

TEST(Tokenizer, InvalidUtf8CountsAsReplacements) {
  for (const GgufMetadata& metadata : {TestBpe("gpt-2", {}), TestSpm({})}) {
    EXPECT_EQ(Encode(metadata, "a\xff\x80z\xe4"), Encode(metadata, "a\uFFFD\uFFFDz\uFFFD"));
  }
}

TEST(Tokenizer, TextsThatAreTooLongAreRefused) {
  const auto ids = Open(TestBpe("gpt-2", {}))->Encode(std::string((64u << 20) + 1, 'a'), {});
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Code::kInvalidArgument);
  EXPECT_THAT(ids.error().message, HasSubstr("expected at most 67.1 MB"));
}

TEST(SentencePiece, MergesByScoreWithASpaceInFront) {
  const GgufMetadata metadata = TestSpm({{"\u2581", TokenType::kNormal, -9},
                                         {"a", TokenType::kNormal, -9},
                                         {"b", TokenType::kNormal, -9},
                                         {"ab", TokenType::kNormal, -2},
                                         {"ba", TokenType::kNormal, -1},
                                         {"\u2581a", TokenType::kNormal, -3}});
  EXPECT_THAT(Encode(metadata, "ab"), ElementsAre(1, 259, 262));
  EXPECT_THAT(Encode(metadata, "aba"), ElementsAre(1, 264, 263));
  EXPECT_THAT(Encode(metadata, "a b"), ElementsAre(1, 264, 259, 261));
  EXPECT_THAT(Encode(metadata, ""), ElementsAre(1));
}

TEST(SentencePiece, AddsTheSpaceAfterEverySpecialTokenOrNone) {
  GgufMetadata metadata = TestSpm({{"\u2581a"}, {"a"}, {"\u2581"}});
  EXPECT_THAT(Encode(metadata, "a</s>a"), ElementsAre(1, 259, 2, 259));
  metadata.Set("tokenizer.ggml.add_space_prefix", GgufValue::Bool(false));
  EXPECT_THAT(Encode(metadata, "a</s>a"), ElementsAre(1, 260, 2, 260));
}

TEST(SentencePiece, CharactersWithoutTokensBecomeBytes) {
  const GgufMetadata metadata = TestSpm({{"a"}, {"bc"}});
  const Ids ids = Encode(metadata, "a bc\u00e9", {.add_special = false});
  // Space marks become bytes too. Two characters without tokens of their own can still merge into
  // one.
  EXPECT_THAT(ids, ElementsAre(3 + 0xe2, 3 + 0x96, 3 + 0x81, 259, 3 + 0xe2, 3 + 0x96, 3 + 0x81, 260,
                               3 + 0xc3, 3 + 0xa9));
}

TEST(SentencePiece, MergesUseTokensOfEveryType) {
  const GgufMetadata metadata = TestSpm({{"<", TokenType::kNormal, -1},
                                         {"s", TokenType::kNormal, -1},
                                         {"<s", TokenType::kUnused, -1},
                                         {">", TokenType::kNormal, -1}});
  const Tokenizer::Options plain = {.add_special = false, .parse_special = false};
  const Ids ids = Encode(metadata, "<s>", plain);
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids.back(), 1u);
}

TEST(SentencePiece, DecodesSpacesInPieces) {
  const auto tokenizer = Open(TestSpm({{"\u2581a\u2581b"}, {"x\u2581", TokenType::kUserDefined}}));
  EXPECT_EQ(tokenizer->Piece(259), " a b");
  EXPECT_EQ(tokenizer->Piece(260), "x\u2581");
  EXPECT_EQ(tokenizer->Piece(3 + 0xff), "\xff");
  EXPECT_EQ(tokenizer->Piece(1), "");
  EXPECT_EQ(tokenizer->eos(), 2u);
}

TEST(SentencePiece, BadMetadataIsRefused) {
  EXPECT_THAT(
      TokenizerErrorOf(TestMetadata("llama", "default", {{"a"}, {"b"}, {"c"}}), Code::kCorrupt),
      HasSubstr("tokenizer.ggml.tokens: expected \"<0x00>\", found no such token"));
  GgufMetadata metadata = TestSpm({});
  metadata.Set("tokenizer.ggml.add_space_prefix", GgufValue::U32(1));
  EXPECT_THAT(TokenizerErrorOf(metadata, Code::kCorrupt), HasSubstr("expected a bool, found u32"));
  metadata = TestSpm({{"a"}, {"a"}});
  EXPECT_THAT(TokenizerErrorOf(metadata, Code::kCorrupt), HasSubstr("\"a\": expected one id"));
}

constexpr const char* kBad = "\uFFFD";

TEST(RepairUtf8, KeepsValidText) {
  for (const std::string text :
       {"", "plain", "\u00e9\u0800\uffff", "\U00010000\U0010ffff", "\u0080\u07ff\ud7ff\ue000"}) {
    EXPECT_EQ(RepairUtf8(text), text);
  }
  EXPECT_EQ(RepairUtf8(std::string(1, '\0')), std::string(1, '\0'));
}

TEST(RepairUtf8, ReplacesEveryInvalidByte) {
  const std::string bad = kBad;
  EXPECT_EQ(RepairUtf8("a\x80z"), "a" + bad + "z");
  EXPECT_EQ(RepairUtf8("\xc3"), bad);
  EXPECT_EQ(RepairUtf8("\xe4\xb8x"), bad + bad + "x");
  EXPECT_EQ(RepairUtf8("\xf0\x9f\x98"), bad + bad + bad);
  EXPECT_EQ(RepairUtf8("\xff\xfe"), bad + bad);
}

TEST(RepairUtf8, OverlongFormsSurrogatesAndTooLargePointsAreNotValid) {
  const std::string two = std::string(kBad) + kBad;
  EXPECT_EQ(RepairUtf8("\xc0\xaf"), two);
  EXPECT_EQ(RepairUtf8("\xe0\x9f\xbf"), two + kBad);
  EXPECT_EQ(RepairUtf8("\xed\xa0\x80"), two + kBad);
  EXPECT_EQ(RepairUtf8("\xf0\x8f\xbf\xbf"), two + two);
  EXPECT_EQ(RepairUtf8("\xf4\x90\x80\x80"), two + two);
  EXPECT_EQ(RepairUtf8("\xf5\x80"), two);
}

}  // namespace

}  // namespace moepack::runtime
