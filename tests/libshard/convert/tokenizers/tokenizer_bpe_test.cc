#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The keys of a conversion that must succeed.
std::string ErrorOf(const ConvertSample& sample, Code code = Code::kCorrupt) {
  const auto model = sample.Convert();
  EXPECT_FALSE(model);
  if (model) return "";
  EXPECT_EQ(model.error().code, code);
  return model.error().message;
}

TEST(Bpe, PadsTheVocabularyAndTypesItsTokens) {
  const GgufMetadata metadata = ConvertedKeys(ConvertSample::Qwen3Moe());
  EXPECT_EQ(metadata.String("tokenizer.ggml.model"), "gpt2");
  EXPECT_THAT(*metadata.Find("tokenizer.ggml.tokens")->AsStrings(),
              ElementsAre("a", "b", "ab", "<|end|>", "[PAD4]"));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.token_type"),
            GgufValue::I32s(std::vector<int32_t>{1, 1, 1, 3, 5}));
  EXPECT_EQ(metadata.Find("tokenizer.ggml.scores"), nullptr);
}

TEST(Bpe, AddedTokensAreControlTokensIfTheyAreOrLookSpecial) {
  const std::pair<const char*, int32_t> rows[] = {
      {"<think>", 4}, {"<|im_start|>", 3}, {"<\uff5cUser\uff5c>", 3}, {"<unused12>", 3},
      {"<pad>", 3},   {"[@BOS@]", 3},      {"<|not closed", 4},       {"<mask>", 3}};
  for (const auto& [text, type] : rows) {
    ConvertSample sample = ConvertSample::Qwen3Moe();
    sample.tokenizer["added_tokens"][0] = {{"id", 3}, {"content", text}, {"special", false}};
    EXPECT_EQ(*ConvertedKeys(sample).Find("tokenizer.ggml.token_type"),
              GgufValue::I32s(std::vector<int32_t>{1, 1, 1, type, 5}))
        << text;
  }
}

TEST(Bpe, UserDefinedTokensHaveRealSpaces) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["added_tokens"][0] = {{"id", 3}, {"content", "a\u2581b\u2581"}};
  EXPECT_EQ(ConvertedKeys(sample).Find("tokenizer.ggml.tokens")->AsStrings()->at(3), "a b ");
}

TEST(Bpe, TakesTokensThatOnlyTheConfigKnows) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer_config = {{"added_tokens_decoder", {{"4", {{"content", "<more>"}}}}}};
  EXPECT_EQ(ConvertedKeys(sample).Find("tokenizer.ggml.tokens")->AsStrings()->at(4), "<more>");
}

TEST(Bpe, ReadsMergesAsTextsOrPairs) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["vocab"] = {{"x y", 0}, {"z", 1}, {"x yz", 2}, {"zz", 4}};
  sample.tokenizer["model"]["merges"] = Json::parse(R"(["z z", ["x y", "z"]])");
  EXPECT_THAT(*ConvertedKeys(sample).Find("tokenizer.ggml.merges")->AsStrings(),
              ElementsAre("z z", "x\u0120y z"))
      << "a space inside a piece would look like the separator";
}

TEST(Bpe, FallsBackToMergesTxt) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"].erase("merges");
  EXPECT_THAT(ErrorOf(sample),
              HasSubstr("model.merges: expected the merges, here or in merges.txt"));
  sample.Write("merges.txt", "#version: 0.2\r\na b\r\n\n");
  EXPECT_THAT(*ConvertedKeys(sample).Find("tokenizer.ggml.merges")->AsStrings(),
              ElementsAre("a b"));
  sample.Write("merges.txt", "#version: 0.2\na b\n# c\n");
  EXPECT_THAT(ErrorOf(sample), HasSubstr("merges.txt: merge 1 (\"#\", \"c\"): expected \"#\""));
}

TEST(Bpe, RefusesMergesThatTheVocabularyDoesNotHave) {
  const std::pair<const char*, const char*> rows[] = {
      {R"(["x", "b"])", "\"x\""}, {R"(["a", "x"])", "\"x\""}, {R"("b a")", "\"ba\""}};
  for (const bool ignored : {false, true}) {
    for (const auto& [merge, missing] : rows) {
      ConvertSample sample = ConvertSample::Qwen3Moe();
      sample.tokenizer["model"]["ignore_merges"] = ignored;
      sample.tokenizer["model"]["merges"] = {"a b", Json::parse(merge)};
      const std::string error = ErrorOf(sample);
      EXPECT_THAT(error, HasSubstr("tokenizer.json: model.merges: merge 1 (\""));
      EXPECT_THAT(error, HasSubstr(Cat("): expected ", missing, " in the vocabulary")));
    }
  }
}

TEST(Bpe, DropsTheContinuationPrefixFromMergedTokens) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["vocab"]["##b"] = 4;
  sample.tokenizer["model"]["continuing_subword_prefix"] = "##";
  sample.tokenizer["model"]["merges"] = Json::parse(R"([["a", "##b"]])");
  EXPECT_THAT(*ConvertedKeys(sample).Find("tokenizer.ggml.merges")->AsStrings(),
              ElementsAre("a ##b"));
}

TEST(Bpe, SaysHowManyRowsOfTheEmbeddingHaveNoToken) {
  const auto model = ConvertSample::Qwen3Moe().Convert();
  ASSERT_TRUE(model);
  EXPECT_THAT(model->notes,
              ElementsAre(HasSubstr("the tokenizer has 4 tokens for 5 rows of the embedding")));
  ConvertSample full = ConvertSample::Qwen3Moe();
  full.tokenizer["model"]["vocab"]["more"] = 4;
  EXPECT_THAT(full.Convert()->notes, testing::IsEmpty());
}

TEST(Bpe, RefusesANormalizerThatTheRuntimeLacks) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(ErrorOf(sample, Code::kUnsupported),
              HasSubstr("tokenizer.json: normalizer: expected none or NFC, found \"Lowercase\""));
  ConvertOptions options;
  options.pre = "qwen2";
  EXPECT_TRUE(sample.Convert(options)) << "a pre-tokenizer that the user names is accepted";
}

TEST(Bpe, RefusesMergesOfAnotherForm) {
  for (const char* merge :
       {R"("ab")", R"("a b c")", R"(" b")", R"("a ")", R"(["a"])", R"(["a", ""])", "7"}) {
    ConvertSample sample = ConvertSample::Qwen3Moe();
    sample.tokenizer["model"]["merges"] = {"a b", Json::parse(merge)};
    EXPECT_THAT(ErrorOf(sample), HasSubstr("model.merges: merge 1: expected two pieces")) << merge;
  }
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["merges"] = "a b";
  EXPECT_THAT(ErrorOf(sample), HasSubstr("model.merges: expected a list"));
}

TEST(Bpe, RefusesTwoTokensWithOneText) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["added_tokens"][0]["content"] = "ab";
  EXPECT_THAT(ErrorOf(sample), HasSubstr("token \"ab\": expected one id, found 2 and 3"));
}

TEST(Bpe, RefusesTwoTokensWithOneId) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["vocab"]["other"] = 2;
  EXPECT_THAT(ErrorOf(sample),
              HasSubstr("model.vocab: id 2: expected one token, found \"ab\" and \"other\""));
}

TEST(Bpe, RefusesAVocabularyLargerThanTheEmbedding) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["vocab"]["other"] = 5;
  EXPECT_THAT(ErrorOf(sample), HasSubstr("token \"other\": expected an id below 5 (rows of the "
                                         "embedding), found 5"));
  sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["added_tokens"][0]["id"] = 9;
  EXPECT_THAT(ErrorOf(sample),
              HasSubstr("tokenizer.json: token \"<|end|>\": expected an id below"));
}

TEST(Bpe, RefusesVocabulariesOfAnotherForm) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["vocab"] = Json::array({Json::array({"a", -1.5})});
  EXPECT_THAT(ErrorOf(sample), HasSubstr("model.vocab: expected an object of ids"));
  sample.tokenizer["model"]["vocab"] = {{"a", "zero"}};
  EXPECT_THAT(ErrorOf(sample), HasSubstr("model.vocab: \"a\": expected an id, found \"zero\""));
}

TEST(Bpe, RefusesModelsOfAnotherKind) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["type"] = "Unigram";
  EXPECT_THAT(ErrorOf(sample, Code::kUnsupported),
              HasSubstr("expected byte-level BPE, found \"Unigram\""));
  sample = ConvertSample::Qwen3Moe();
  sample.tokenizer["model"]["byte_fallback"] = true;
  EXPECT_THAT(ErrorOf(sample, Code::kUnsupported), HasSubstr("BPE with byte fallback"));
  sample.tokenizer.erase("model");
  EXPECT_THAT(ErrorOf(sample, Code::kUnsupported), HasSubstr("model: expected byte-level BPE"));
}

TEST(Bpe, NamesTheFileThatIsMissing) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.tokenizer = nullptr;
  EXPECT_THAT(ErrorOf(sample, Code::kNotFound),
              HasSubstr("tokenizer.json: expected the tokenizer, found no such file"));
}

}  // namespace
}  // namespace moepack
