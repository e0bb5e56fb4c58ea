#include "libshard/convert/tokenizers/tokenizer_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/sample.h"
#include "tests/libshard/convert/tokenizers/family_pre_tokenizers.h"

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

constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json ByteLevel(bool use_regex, bool prefix = false) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", use_regex}};
}
Json SplitBy(const std::string& regex, const char* behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", behavior},
          {"invert", invert}};
}
Json Sequence(std::vector<Json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

std::string NameOf(const Json& pre, std::string_view family = "") {
  const auto name = RecognisePreTokenizer("tokenizer.json", pre, family);
  return name ? *name : name.error().message;
}

TEST(PreTokenizer, IsRecognisedByItsExpression) {
  const std::pair<const char*, const char*> rows[] = {
      {kQwen2, "qwen2"},        {kQwen35, "qwen35"},       {kLlama3, "llama-bpe"},
      {kGpt4o, "gpt-4o"},       {kTekken, "tekken"},       {kKimi, "kimi-k2"},
      {kBailing, "bailingmoe"}, {kExaoneMoe, "exaone-moe"}};
  for (const auto& [regex, name] : rows) {
    EXPECT_EQ(NameOf(Sequence({SplitBy(regex), ByteLevel(false)})), name);
    EXPECT_EQ(NameOf(Sequence({SplitBy(regex, "Removed", true), ByteLevel(false)})), name);
  }
}

// Letters with a case stand range by range, and not in the same form in all files.
Json DeepseekLlm(const char* letters) {
  return Sequence({SplitBy("[\r\n]"), SplitBy(letters),
                   SplitBy("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
                   SplitBy("\\s+$"), SplitBy("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                   Json{{"type", "Digits"}, {"individual_digits", true}}, ByteLevel(false)});
}

// Three splits with line breaks in them.
Json DeepseekV3() {
  return Sequence(
      {SplitBy(R"(\p{N}{1,3})"), SplitBy("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
       SplitBy("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
               "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
       ByteLevel(false)});
}

TEST(PreTokenizer, KnowsTheSixStepsOfDeepseeksFirstTokenizers) {
  EXPECT_EQ(NameOf(DeepseekLlm("\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u1f51-\u1f7d]+")),
            "deepseek-llm");
  EXPECT_EQ(NameOf(DeepseekLlm("\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u1f51-\u03ce]+")),
            "deepseek-llm");
  EXPECT_THAT(NameOf(DeepseekLlm("\\s?\\p{L}+")),
              HasSubstr("expected one that llama.cpp has a name for"));
}

// A name that no expression of the family's models stands for would never be written.
TEST(PreTokenizer, TheNameOfEveryFamilyIsOneOfAnExpression) {
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const Json lines = SplitBy(R"((?:\r?\n)+(?!\r?\n))", "MergedWithNext");
  const Json known[] = {Sequence({SplitBy(kQwen2), ByteLevel(false)}),
                        Sequence({SplitBy(kQwen35), ByteLevel(false)}),
                        Sequence({SplitBy(kLlama3), ByteLevel(false)}),
                        Sequence({SplitBy(kGpt4o), ByteLevel(false)}),
                        Sequence({SplitBy(kTekken), ByteLevel(false)}),
                        Sequence({SplitBy(kKimi), ByteLevel(false)}),
                        Sequence({SplitBy(kBailing), ByteLevel(false)}),
                        Sequence({SplitBy(kExaoneMoe), ByteLevel(false)}),
                        Sequence({lines, SplitBy(kQwen2), ByteLevel(false)}),
                        DeepseekLlm("\\s?[A-Za-z\u00b5\u00c0-\u00d6]+"),
                        DeepseekV3(),
                        ByteLevel(true),
                        Sequence({digits, ByteLevel(true)})};
  const std::vector<std::string> names = FamilyPreTokenizers();
  EXPECT_GT(names.size(), 10u);
  // Its own expression is not in the table, so a checkpoint with it needs --pre.
  for (const std::string& name : names) {
    if (name == "afmoe") continue;
    EXPECT_TRUE(std::any_of(std::begin(known), std::end(known), [&](const Json& pre) {
      return NameOf(pre, name) == name;
    })) << name;
  }
}

TEST(PreTokenizer, TheFamilyDecidesWhereNamesShareAnExpression) {
  const Json llama3 = Sequence({SplitBy(kLlama3), ByteLevel(false)});
  EXPECT_EQ(NameOf(llama3, "glm4"), "glm4");
  EXPECT_EQ(NameOf(llama3, "qwen2"), "llama-bpe") << "not one of its names";
  const Json bailing = Sequence({SplitBy(kBailing), ByteLevel(false)});
  EXPECT_EQ(NameOf(bailing, "bailingmoe2"), "bailingmoe2");
  const Json gpt4o = Sequence({SplitBy(kGpt4o), ByteLevel(false)});
  EXPECT_EQ(NameOf(gpt4o, "llama4"), "llama4");
  EXPECT_EQ(NameOf(gpt4o, "minimax-m2"), "minimax-m2");
  EXPECT_EQ(NameOf(ByteLevel(true), "olmo"), "olmo");
}

TEST(PreTokenizer, SettingsCountAsMuchAsExpressions) {
  EXPECT_EQ(NameOf(ByteLevel(true)), "gpt-2");
  EXPECT_EQ(NameOf({{"type", "ByteLevel"}, {"add_prefix_space", false}}), "gpt-2")
      << "use_regex is on where it is not written";
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(NameOf(Sequence({digits, ByteLevel(true)})), "refact");
  EXPECT_THAT(NameOf(Sequence({SplitBy(kQwen2), ByteLevel(true)})), HasSubstr("expected one"));
  EXPECT_THAT(NameOf(ByteLevel(true, true)), HasSubstr("<prefix space>"));
  EXPECT_THAT(NameOf(Sequence({SplitBy(kQwen2, "MergedWithNext"), ByteLevel(false)})),
              HasSubstr("<MergedWithNext>"));
}

TEST(PreTokenizer, ReadsThreeSplitsWithLineBreaksInThem) {
  EXPECT_EQ(NameOf(DeepseekV3()), "deepseek-v3");
}

TEST(PreTokenizer, NamesAnUnknownPreTokenizerAndAWorkaround) {
  const auto unknown = RecognisePreTokenizer(
      "tokenizer.json", Sequence({SplitBy("\\w+|\\W+"), ByteLevel(false)}), "");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kUnsupported);
  EXPECT_THAT(unknown.error().message, HasSubstr("tokenizer.json: pre_tokenizer: expected one that "
                                                 "llama.cpp has a name for, found \"\\\\w+|"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("--pre NAME"));
}

TEST(PreTokenizer, InvalidPreTokenizersMatchNothing) {
  for (const Json& pre :
       {Json(), Json(7), Json::array(), Json{{"type", "Sequence"}}, Json{{"type", 3}},
        Sequence({Json("x")}), Json{{"type", "Split"}, {"pattern", {{"String", " "}}}}}) {
    EXPECT_THAT(NameOf(pre), HasSubstr("expected one")) << pre;
  }
}

TEST(Normalizer, MayBeAbsentOrNfc) {
  const Json nfc = {{"type", "NFC"}};
  const auto sequence = [](std::vector<Json> steps) {
    return Json{{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  };
  for (const Json& known : {Json(), nfc, sequence({}), sequence({nfc, nfc})}) {
    EXPECT_TRUE(CheckNormalizer("tokenizer.json", known)) << known;
  }
  for (const Json& unknown :
       {Json(3), Json{{"type", "NFKC"}}, sequence({nfc, Json{{"type", "StripAccents"}}}),
        Json{{"type", "Sequence"}}, Json::object()}) {
    const Status status = CheckNormalizer("tokenizer.json", unknown);
    ASSERT_FALSE(status) << unknown;
    EXPECT_EQ(status.error().code, Code::kUnsupported);
    EXPECT_THAT(status.error().message, HasSubstr("normalizer: expected none or NFC, found "));
    EXPECT_THAT(status.error().hint, HasSubstr("--pre NAME"));
  }
}

}  // namespace

}  // namespace moepack
