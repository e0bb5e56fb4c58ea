#include "libshard/convert/tokenizers/tokenizer_spm.h"

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

using namespace std::string_literals;

std::string ProtoError(const std::string& bytes) {
  const auto pieces = ParseSentencePieces("tokenizer.model", bytes);
  if (pieces) return "";
  EXPECT_EQ(pieces.error().code, Code::kCorrupt);
  return pieces.error().message;
}

TEST(SentencePieces, AreReadInOrder) {
  const auto pieces = ParseSentencePieces(
      "m", fixtures::TokenizerModel({{"<unk>", 0, 2}, {"\u2581the", -3.25f}, {"<0x0A>", 0, 6}}));
  ASSERT_TRUE(pieces) << pieces.error().message;
  ASSERT_EQ(pieces->size(), 3u);
  EXPECT_EQ((*pieces)[0].type, 2u);
  EXPECT_EQ((*pieces)[1].text, "\u2581the");
  EXPECT_EQ((*pieces)[1].score, -3.25f);
  EXPECT_EQ((*pieces)[1].type, 1u);
  EXPECT_EQ((*pieces)[2].type, 6u);
}

TEST(SentencePieces, OtherFieldsAreSkippedWhateverTheirWireType) {
  // Field 2 as bytes, 15 as a number, 9 as 32 bits, 10 as 64 bits, around the piece "a".
  const std::string bytes = "\x12\x02zz\x78\x96\x01\x0a\x03\x0a\x01"s + "a"s +
                            "\x4d\x01\x02\x03\x04\x51\x01\x02\x03\x04\x05\x06\x07\x08"s;
  const auto pieces = ParseSentencePieces("m", bytes);
  ASSERT_TRUE(pieces) << pieces.error().message;
  ASSERT_EQ(pieces->size(), 1u);
  EXPECT_EQ((*pieces)[0].text, "a");
}

TEST(SentencePieces, DoesNotReadAFieldOfAnotherWireTypeAsAPiece) {
  EXPECT_THAT(ProtoError("\x08\x01"s), HasSubstr("expected pieces, found none"));
}

TEST(SentencePieces, RefusesATruncationExceptBetweenFields) {
  const std::string whole = fixtures::TokenizerModel({{"ab", 1.5f, 1}, {"c", 2.5f, 3}});
  size_t read = 0;
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto pieces = ParseSentencePieces("m", std::string_view(whole).substr(0, length));
    if (pieces) {
      ++read;
    } else {
      EXPECT_EQ(pieces.error().code, Code::kCorrupt) << length;
    }
  }
  EXPECT_LE(read, 3u) << "after the first piece, after the second, and before the normalizer";
}

TEST(SentencePieces, RefusesWrongLengths) {
  EXPECT_EQ(ProtoError("\x0a\x05zz"s),
            "tokenizer.model: SentencePiece model: byte 2: expected at "
            "most 2 bytes, found 5");
  EXPECT_THAT(ProtoError("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s),
              HasSubstr("at most 0 bytes, found 18446744073709551615"));
  EXPECT_THAT(ProtoError("\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"s),
              HasSubstr("the end of a number, found more digits"));
  EXPECT_THAT(ProtoError("\x0a\x80"s), HasSubstr("found the end of the message"));
}

TEST(SentencePieces, RefusesInvalidTags) {
  EXPECT_THAT(ProtoError("\x03"s), HasSubstr("a field number, found 0"));
  EXPECT_THAT(ProtoError("\x0b"s), HasSubstr("wire type 0, 1, 2 or 5, found 3"));
  EXPECT_THAT(ProtoError("\x0f"s), HasSubstr("found 7"));
}

TEST(SentencePieces, RefusesInvalidTypes) {
  EXPECT_THAT(ProtoError("\x0a\x02\x18\x07"s), HasSubstr("type: expected 1 to 6, found 7"));
  EXPECT_THAT(ProtoError("\x0a\x02\x18\x00"s), HasSubstr("found 0"));
  EXPECT_THAT(ProtoError(""), HasSubstr("expected pieces, found none"));
}

}  // namespace

}  // namespace moepack
