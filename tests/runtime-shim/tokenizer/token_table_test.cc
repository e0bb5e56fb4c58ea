#include "runtime-shim/tokenizer/token_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/runtime-shim/tokenizer/metadata.h"

namespace moepack::runtime {
namespace {

using ::testing::HasSubstr;

GgufMetadata Three() { return TestMetadata("llama", "default", {{"a"}, {"b"}, {"c"}}); }

// Message of the error that follows from one key.
std::string TokenTableErrorOf(const std::string& key, GgufValue value, Code code = Code::kCorrupt) {
  GgufMetadata metadata = Three();
  metadata.Set("tokenizer.ggml." + key, std::move(value));
  const auto table = TokenTable::Read("m.gguf", metadata, {});
  if (table) return "no error";
  EXPECT_EQ(table.error().code, code);
  return table.error().message;
}

TEST(TokenTable, ReadsTextsTypesScoresAndIds) {
  GgufMetadata metadata = TestMetadata(
      "llama", "default", {{"a", TokenType::kControl, 1}, {"", TokenType::kByte, -2}, {"c"}});
  metadata.Set("tokenizer.ggml.bos_token_id", GgufValue::U32(2));
  metadata.Set("tokenizer.ggml.add_bos_token", GgufValue::Bool(true));
  const auto table = TokenTable::Read("m.gguf", metadata, {.bos = 0, .eos = 1});
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), 3u);
  EXPECT_EQ(table->text(1), "[EMPTY_1]");
  EXPECT_EQ(table->type(0), TokenType::kControl);
  EXPECT_EQ(table->scores()[1], -2);
  EXPECT_EQ(table->Find("c"), 2u);
  EXPECT_EQ(table->Find("d"), std::nullopt);
  EXPECT_EQ(table->bos(), 2u);
  EXPECT_EQ(table->eos(), 1u);
  EXPECT_TRUE(table->add_bos());
  EXPECT_FALSE(table->add_eos());
}

TEST(TokenTable, DropsDefaultsOutsideTheVocabulary) {
  const auto table = TokenTable::Read("m.gguf", Three(), {.bos = 11, .eos = 3});
  ASSERT_TRUE(table);
  EXPECT_EQ(table->bos(), std::nullopt);
  EXPECT_EQ(table->eos(), std::nullopt);
}

TEST(TokenTable, IgnoresUnknownTypes) {
  GgufMetadata metadata = Three();
  const std::vector<int32_t> types = {9, -1, 3};
  metadata.Set("tokenizer.ggml.token_type", GgufValue::I32s(types));
  const auto table = TokenTable::Read("m.gguf", metadata, {});
  ASSERT_TRUE(table);
  EXPECT_EQ(table->type(0), TokenType::kUnused);
  EXPECT_EQ(table->type(1), TokenType::kUnused);
  EXPECT_EQ(table->type(2), TokenType::kControl);
}

TEST(TokenTable, BadListsAreRefused) {
  EXPECT_THAT(TokenTableErrorOf("tokens", GgufValue::U32(1)),
              HasSubstr("m.gguf: tokenizer.ggml.tokens: expected a list of strings, found u32"));
  EXPECT_THAT(TokenTableErrorOf("tokens", GgufValue::Strings({})), HasSubstr("found 0 values"));
  EXPECT_THAT(TokenTableErrorOf("tokens", GgufValue::Strings({"x", "y", "x"})),
              HasSubstr("\"x\": expected one id, found 0 and 2"));
  EXPECT_THAT(TokenTableErrorOf("token_type", GgufValue::I32s(std::vector<int32_t>{1, 1})),
              HasSubstr("expected 3 values of type i32, found 2 values of type i32"));
  EXPECT_THAT(TokenTableErrorOf("token_type", GgufValue::U32s(std::vector<uint32_t>{1, 1, 1})),
              HasSubstr("found 3 values of type u32"));
  EXPECT_THAT(TokenTableErrorOf("scores", GgufValue::F32s(std::vector<float>{1})),
              HasSubstr("expected 3"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(TokenTableErrorOf("scores", GgufValue::F32s(std::vector<float>{1, nan, 2})),
              HasSubstr("id 1: expected a number, found NaN"));
  GgufMetadata metadata = Three();
  metadata.Remove("tokenizer.ggml.tokens");
  EXPECT_THAT(TokenTable::Read("m", metadata, {}).error().message, HasSubstr("found nothing"));
}

TEST(TokenTable, BadIdsAndFlagsAreRefused) {
  for (const char* name : {"bos", "eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    const std::string key = std::string(name) + "_token_id";
    EXPECT_THAT(TokenTableErrorOf(key, GgufValue::U32(3)),
                HasSubstr("expected an id below 3, found 3"));
    EXPECT_THAT(TokenTableErrorOf(key, GgufValue::String("a")), HasSubstr("found string")) << key;
  }
  EXPECT_THAT(TokenTableErrorOf("add_bos_token", GgufValue::U32(1)),
              HasSubstr("expected a bool, found u32"));
  EXPECT_THAT(TokenTableErrorOf("add_eos_token", GgufValue::Bool(true)),
              HasSubstr("eos_token_id: expected the token that every text gets, found nothing"));
}

std::vector<std::string> Ends(const std::vector<std::string>& texts) {
  std::vector<TestToken> tokens;
  for (const std::string& text : texts) tokens.push_back({text});
  const auto table = TokenTable::Read("m", TestMetadata("gpt2", "gpt-2", tokens), {});
  std::vector<std::string> ends;
  for (uint32_t id = 0; table && id < table->size(); ++id) {
    if (table->IsEnd(id)) ends.push_back(table->text(id));
  }
  return ends;
}

TEST(TokenTable, RecognizesEndTokensByTheirText) {
  using ::testing::ElementsAre;
  EXPECT_THAT(Ends({"a", "<|im_end|>", "<|endoftext|>", "[e~["}),
              ElementsAre("<|im_end|>", "<|endoftext|>", "[e~["));
  EXPECT_THAT(Ends({"<|fim_prefix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}),
              ElementsAre("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"));
  EXPECT_THAT(Ends({"<|end|>", "<|return|>"}), ElementsAre("<|end|>", "<|return|>"));
  EXPECT_THAT(Ends({"<|end|>", "<|return|>", "<|call|>"}), ElementsAre("<|return|>", "<|call|>"));
  EXPECT_THAT(Ends({"<|end|>", "<|flush|>", "<|calls|>"}), ElementsAre("<|flush|>", "<|calls|>"));
  EXPECT_THAT(Ends({"</s>", "<|tool_response>"}), ElementsAre("<|tool_response>"));
}

TEST(TokenTable, ReadsEndTokensFromKeys) {
  GgufMetadata metadata = Three();
  metadata.Set("tokenizer.ggml.eot_token_id", GgufValue::U32(0));
  metadata.Set("tokenizer.ggml.eom_token_id", GgufValue::U32(1));
  const auto table = TokenTable::Read("m", metadata, {.bos = 0, .eos = 2});
  ASSERT_TRUE(table);
  for (uint32_t id = 0; id < 3; ++id) EXPECT_TRUE(table->IsEnd(id));
  EXPECT_FALSE(table->IsEnd(3));
}

TEST(TokenTable, TextsTakePrecedenceOverTypes) {
  const auto table = TokenTable::Read(
      "m", TestMetadata("gpt2", "gpt-2", {{"<|eot_id|>"}, {"<|channel|>", TokenType::kControl}}),
      {});
  ASSERT_TRUE(table);
  EXPECT_EQ(table->type(0), TokenType::kControl);
  EXPECT_EQ(table->type(1), TokenType::kUserDefined);
}

}  // namespace
}  // namespace moepack::runtime
