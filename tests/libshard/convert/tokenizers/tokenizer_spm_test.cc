#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/tokenizer_model.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Four pieces; the embedding has five rows.
ConvertSample Sample() {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.tokenizer = nullptr;
  sample.Write("tokenizer.model",
               fixtures::TokenizerModel(
                   {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"<0x41>", 0, 6}, {"\u2581a", -1.5f, 4}}));
  return sample;
}

TEST(SentencePieceTokenizer, TakesPiecesScoresAndTypes) {
  const GgufMetadata metadata = ConvertedKeys(Sample());
  EXPECT_EQ(metadata.String("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(metadata.String("tokenizer.ggml.pre"), "default");
  EXPECT_THAT(*metadata.Find("tokenizer.ggml.tokens")->AsStrings(),
              ElementsAre("<unk>", "<s>", "<0x41>", "\u2581a", "[PAD4]"));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.scores"),
            GgufValue::F32s(std::vector<float>{0, 0, 0, -1.5f, -10000}));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.token_type"),
            GgufValue::I32s(std::vector<int32_t>{2, 3, 6, 1, 5}))
      << "a user-defined piece of the model is a normal token";
  EXPECT_EQ(metadata.Find("tokenizer.ggml.merges"), nullptr);
}

TEST(SentencePieceTokenizer, AddedTokensOverrideEarlierOnes) {
  ConvertSample sample = Sample();
  sample.Write("added_tokens.json", R"({"<extra>": 4})");
  GgufMetadata metadata = ConvertedKeys(sample);
  EXPECT_EQ(metadata.Find("tokenizer.ggml.tokens")->AsStrings()->at(4), "<extra>");
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.token_type"),
            GgufValue::I32s(std::vector<int32_t>{2, 3, 6, 1, 4}));
  sample.tokenizer_config = {
      {"added_tokens_decoder",
       {{"0", {{"content", "<unk>"}, {"special", true}}}, {"4", {{"content", "x\u2581y"}}}}}};
  metadata = ConvertedKeys(sample);
  EXPECT_EQ(metadata.Find("tokenizer.ggml.tokens")->AsStrings()->at(4), "x y");
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.scores"),
            GgufValue::F32s(std::vector<float>{-1000, 0, 0, -1.5f, -1000}));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.token_type"),
            GgufValue::I32s(std::vector<int32_t>{3, 3, 6, 1, 4}));
}

TEST(SentencePieceTokenizer, RefusesAVocabularyLargerThanTheEmbedding) {
  ConvertSample sample = Sample();
  sample.Write("added_tokens.json", R"({"<extra>": 5})");
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kCorrupt);
  EXPECT_THAT(model.error().message,
              HasSubstr("added_tokens.json: token \"<extra>\": expected an id below 5"));
  sample = Sample();
  sample.Write("tokenizer.model",
               fixtures::TokenizerModel({{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}}));
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("tokenizer.model: token \"f\": expected an id below 5"));
}

TEST(SentencePieceTokenizer, RefusesPiecesWithOneText) {
  ConvertSample sample = Sample();
  sample.Write("tokenizer.model", fixtures::TokenizerModel({{"a"}, {"b"}, {"a"}}));
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("token \"a\": expected one id, found 0 and 2"));
}

ConvertSample Disguised() {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.tokenizer = Json::parse(R"({"decoder": {"type": "Sequence"},
    "added_tokens": [{"id": 0, "content": "<s>", "special": true}],
    "model": {"type": "BPE", "byte_fallback": true, "merges": ["a b"],
              "vocab": {"<s>": 0, "<0x1F>": 1, "ab": 2}}})");
  return sample;
}

TEST(SentencePieceTokenizer, ReadsASentencePieceModelFromTokenizerJson) {
  const auto model = Disguised().Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufMetadata& metadata = model->metadata;
  EXPECT_EQ(metadata.String("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.token_type"),
            GgufValue::I32s(std::vector<int32_t>{3, 6, 1, 5, 5}));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.scores"),
            GgufValue::F32s(std::vector<float>{-1000, -1000, -1000, -10000, -10000}));
  EXPECT_THAT(model->warnings, ElementsAre(HasSubstr("no tokenizer.model beside it")));
}

TEST(SentencePieceTokenizer, TheModelFileTakesPrecedenceOverTokenizerJson) {
  ConvertSample sample = Sample();
  sample.tokenizer = Disguised().tokenizer;
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->metadata.Find("tokenizer.ggml.tokens")->AsStrings()->at(3), "\u2581a");
  EXPECT_THAT(model->warnings, IsEmpty());
}

TEST(SentencePieceTokenizer, BytesWithoutFallbackAreByteLevelBpe) {
  EXPECT_EQ(ConvertedKeys(ConvertSample::Mixtral()).String("tokenizer.ggml.model"), "gpt2");
}

}  // namespace
}  // namespace moepack
