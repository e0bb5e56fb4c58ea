#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/convert/tokenizers/special_tokens.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kAdded = R"("added_tokens": [{"id": 1, "content": "<s>"},
  {"id": 2, "content": "</s>"}, {"id": 3, "content": "<sep>"}, {"id": 4, "content": "<cls>"},
  {"id": 5, "content": "<end>"}])";

struct Texts {
  std::string post = "null";  // post_processor
  std::string tokenizer_config = {}, config = "{}";
  uint32_t tokens = 100;
};

SpecialTokens ReadSpecial(const Texts& texts) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "tokenizer.json")
      << "{" << kAdded << ", \"post_processor\": " << texts.post << "}";
  if (!texts.tokenizer_config.empty()) {
    std::ofstream(dir / "tokenizer_config.json") << texts.tokenizer_config;
  }
  const auto files = TokenizerFiles::Read(std::make_shared<LocalTree>(dir.path()));
  EXPECT_TRUE(files) << files.error().message;
  const auto special =
      ReadSpecialTokens(*files, HfConfig::Parse("config.json", texts.config).value(), texts.tokens);
  EXPECT_TRUE(special);
  return *special;
}

// A TemplateProcessing of the pieces named in `single` and `pair`; A and B are the texts.
std::string Template(const std::vector<std::string>& single, const std::vector<std::string>& pair) {
  const auto list = [](const std::vector<std::string>& names) {
    Json pieces = Json::array();
    for (const std::string& name : names) {
      const bool text = name == "A" || name == "B";
      pieces.push_back({{text ? "Sequence" : "SpecialToken", {{"id", name}, {"type_id", 0}}}});
    }
    return pieces;
  };
  return Json{{"type", "TemplateProcessing"}, {"single", list(single)}, {"pair", list(pair)}}
      .dump();
}

TEST(SpecialTokens, FallsBackToTheTextsOfTheFamily) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "tokenizer.json") << "{" << kAdded << "}";
  const auto files = TokenizerFiles::Read(std::make_shared<LocalTree>(dir.path()));
  SpecialTokens special;
  special.ids["eos"] = 9;
  SetByText(*files, {{"bos", "<s>"}, {"eos", "</s>"}, {"eot", "<none>"}, {"eom", "<end>"}}, 5,
            special);
  // The embedding has no row for the id of <end>.
  EXPECT_THAT(special.ids, ElementsAre(Pair("bos", 1), Pair("eos", 9)));
}

TEST(SpecialTokens, ContentTakesPrecedenceOverIds) {
  const SpecialTokens special =
      ReadSpecial({.tokenizer_config = R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})",
                   .config = R"({"bos_token_id": 7, "eos_token_id": [8, 9], "pad_token_id": 10})"});
  EXPECT_THAT(special.ids, ElementsAre(Pair("bos", 1), Pair("eos", 2), Pair("pad", 10)));
}

TEST(SpecialTokens, AListOfIdsIsIgnored) {
  EXPECT_THAT(ReadSpecial({.config = R"({"eos_token_id": [8, 9], "bos_token_id": null})"}).ids,
              IsEmpty());
}

TEST(SpecialTokens, TheRootTakesPrecedenceOverTheTextConfig) {
  const SpecialTokens special = ReadSpecial({.config = R"({"bos_token_id": 1,
    "text_config": {"bos_token_id": 2, "eos_token_id": 3}})"});
  EXPECT_THAT(special.ids, ElementsAre(Pair("bos", 1), Pair("eos", 3)));
}

TEST(SpecialTokens, IgnoresIdsBeyondTheVocabulary) {
  EXPECT_THAT(
      ReadSpecial({.tokenizer_config = R"({"eos_token": "<end>"})",
                   .config = R"({"bos_token_id": 5, "pad_token_id": -1, "eos_token_id": 4})",
                   .tokens = 5})
          .ids,
      ElementsAre(Pair("eos", 4)));
}

TEST(SpecialTokens, TheTemplateDecidesWhichTokensAreAdded) {
  const std::string config = R"({"bos_token": "<s>", "eos_token": "</s>"})";
  const SpecialTokens both =
      ReadSpecial({.post = Template({"<s>", "A", "</s>"}, {}), .tokenizer_config = config});
  EXPECT_THAT(both.add, ElementsAre(Pair("bos", true), Pair("eos", true)));
  const SpecialTokens none = ReadSpecial({.post = Template({"A"}, {}), .tokenizer_config = config});
  EXPECT_THAT(none.add, IsEmpty());
  const SpecialTokens other =
      ReadSpecial({.post = Template({"<sep>", "A"}, {}), .tokenizer_config = config});
  EXPECT_THAT(other.add, ElementsAre(Pair("bos", false)));
}

TEST(SpecialTokens, TheTokenizerConfigOverrulesTheTemplate) {
  const SpecialTokens special =
      ReadSpecial({.post = Template({"<s>", "A", "</s>"}, {}),
                   .tokenizer_config = R"({"bos_token": "<s>", "eos_token": "</s>",
              "add_bos_token": false, "add_eos_token": null})"});
  EXPECT_THAT(special.add, ElementsAre(Pair("bos", false), Pair("eos", true)));
}

TEST(SpecialTokens, ADifferentLastTokenBecomesTheEndOfText) {
  const SpecialTokens special = ReadSpecial(
      {.post = Template({"A", "<end>"}, {}), .tokenizer_config = R"({"eos_token": "</s>"})"});
  EXPECT_THAT(special.ids, ElementsAre(Pair("eos", 5), Pair("eot", 2)));
  EXPECT_THAT(special.add, ElementsAre(Pair("eos", true)));
}

TEST(SpecialTokens, TheTemplateForPairsDecidesWhetherASeparatorIsAdded) {
  const std::string config = R"({"bos_token": "<s>", "sep_token": "<sep>"})";
  const auto sep = [&](const std::vector<std::string>& pair) {
    const SpecialTokens special =
        ReadSpecial({.post = Template({"<s>", "A"}, pair), .tokenizer_config = config});
    const auto found = special.add.find("sep");
    return found == special.add.end() ? -1 : int(found->second);
  };
  EXPECT_EQ(sep({"<s>", "A", "<sep>", "B"}), 1);
  EXPECT_EQ(sep({"<s>", "A", "<s>", "B"}), 0)
      << "as in Mixtral: a second BOS token is not a separator";
  EXPECT_EQ(sep({"<s>", "A", "<s>", "<sep>", "B"}), 1);
  EXPECT_EQ(sep({"<s>", "A", "B"}), -1);
  EXPECT_EQ(sep({"<s>", "B", "<sep>", "A"}), -1);
}

TEST(SpecialTokens, ReadsProcessorsInsideASequence) {
  const std::string post = R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" +
                           Template({"<s>", "A"}, {}) + "]}";
  EXPECT_THAT(ReadSpecial({.post = post, .tokenizer_config = R"({"bos_token": "<s>"})"}).add,
              ElementsAre(Pair("bos", true)));
}

TEST(SpecialTokens, ClassificationModelsAddAllThreeTokens) {
  const SpecialTokens special =
      ReadSpecial({.post = R"({"type": "RobertaProcessing"})",
                   .tokenizer_config = R"({"cls_token": "<cls>", "sep_token": "<sep>"})"});
  EXPECT_THAT(special.add, ElementsAre(Pair("bos", true), Pair("eos", true), Pair("sep", true)));
  EXPECT_EQ(special.ids.at("bos"), 4u);
  EXPECT_EQ(special.ids.at("eos"), 3u);
}

TEST(SpecialTokens, WritesKeysWithTheNamesAndTypesOfTheRuntime) {
  SpecialTokens special;
  special.ids = {{"bos", 1}, {"eos", 2}, {"eot", 3}, {"eom", 4}, {"unk", 5},
                 {"sep", 6}, {"pad", 7}, {"cls", 8}, {"mask", 9}};
  special.add = {{"bos", true}, {"eos", false}, {"sep", false}, {"pad", true}};
  GgufMetadata metadata;
  metadata.Set("tokenizer.ggml.add_bos_token", GgufValue::Bool(false));
  AddSpecialTokens(special, metadata);
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.bos_token_id"), GgufValue::U32(1));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.unknown_token_id"), GgufValue::U32(5));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.seperator_token_id"), GgufValue::U32(6));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.padding_token_id"), GgufValue::U32(7));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.mask_token_id"), GgufValue::U32(9));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.add_eos_token"), GgufValue::Bool(false));
  EXPECT_EQ(*metadata.Find("tokenizer.ggml.add_bos_token"), GgufValue::Bool(false))
      << "a value that the family has set stays";
  EXPECT_EQ(metadata.entries().size(), 11u) << "cls and add_pad_token have no keys";
}

}  // namespace
}  // namespace moepack
