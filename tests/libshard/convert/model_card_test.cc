#include "libshard/convert/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ModelCard, ReadsScalarsAndLists) {
  ModelCard card = ParseModelCard(
      "---\r\nlicense: apache-2.0 # a comment\nlicense_link: https://example.org/a#b\n"
      "name: \"quoted: yes\"\nother: 'single'\n"
      "base_model:\n- a/B\n- c/D\nlanguage: [en, \"no\"]\ntags:\n  - one\n  - two\n---\n# Text\n"
      "license: not this one\n");
  EXPECT_THAT(card["license"], ElementsAre("apache-2.0"));
  EXPECT_THAT(card["license_link"], ElementsAre("https://example.org/a#b"));
  EXPECT_THAT(card["name"], ElementsAre("quoted: yes"));
  EXPECT_THAT(card["other"], ElementsAre("single"));
  EXPECT_THAT(card["base_model"], ElementsAre("a/B", "c/D"));
  EXPECT_THAT(card["language"], ElementsAre("en", "no"));
  EXPECT_THAT(card["tags"], ElementsAre("one", "two"));
}

TEST(ModelCard, ReadsTheLanguageNoAsText) {
  EXPECT_THAT(ParseModelCard("---\nlanguage:\n- no\n- yes\n---\n")["language"],
              ElementsAre("no", "yes"));
  EXPECT_THAT(ParseModelCard("---\nlanguage: no\n---\n")["language"], ElementsAre("no"));
}

TEST(ModelCard, EscapesBytesThatAreNotUtf8) {
  EXPECT_THAT(ParseModelCard("---\ntags: [moe, caf\xe9, caf\xc3\xa9]\n---\n")["tags"],
              ElementsAre("moe", "caf\\xe9", "caf\xc3\xa9"));
}

TEST(ModelCard, SplitsListsAtCommasOutsideQuotes) {
  EXPECT_THAT(ParseModelCard("---\ntags: [a, \"b, c\", 'd,e' , f's, g]\n---\n")["tags"],
              ElementsAre("a", "b, c", "d,e", "f's", "g"));
  EXPECT_THAT(ParseModelCard("---\ntags: [a, \"b, c]\n---\n")["tags"], ElementsAre("a"));
}

TEST(ModelCard, SkipsWhatItDoesNotUnderstand) {
  ModelCard card = ParseModelCard(
      "---\nmodel-index:\n- name: x\n  results:\n  - task: y\nsummary: |\n  block: text\n"
      "empty:\nnothing: null\nmap: {a: b}\nlicense: mit\n---\n");
  EXPECT_THAT(card["model-index"], IsEmpty());
  for (const char* key : {"summary", "empty", "nothing", "map", "block"}) {
    EXPECT_THAT(card[key], IsEmpty()) << key;
  }
  EXPECT_THAT(card["license"], ElementsAre("mit"));
}

TEST(ModelCard, IsEmptyWithoutFrontMatter) {
  for (const char* text : {"", "# Title\n", "---\nlicense: mit\n", "text\n---\na: b\n---\n"}) {
    EXPECT_THAT(ParseModelCard(text), IsEmpty()) << text;
  }
}

TEST(License, ComesFromTheModelCard) {
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: apache-2.0\n---\n")),
            (ModelLicense{"apache-2.0", "", ""}));
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: other\nlicense_name: glm\n"
                                         "license_link: LICENSE\n---\n")),
            (ModelLicense{"other", "glm", "LICENSE"}));
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: [mit, cc-by-4.0]\n---\n")).id,
            "mit, cc-by-4.0");
  EXPECT_TRUE(LicenseOfCard(ParseModelCard("no front matter")).empty());
}

TEST(License, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(LicenseOfCard(ParseModelCard("---\nlicense: a\xff\n---\n")).id, "a\\xff");
}

class LicenseOfModel : public testing::Test {
 protected:
  Result<ModelLicense> Read() {
    SHARD_TRY(const MoeModel model, MoeModel::Open(dir_ / "model"));
    return LicenseOf(model);
  }
  void WriteCard(const std::string& text) {
    std::ofstream(dir_ / "model" / "README.md", std::ios::binary) << text;
  }
  void SetUp() override {
    std::filesystem::copy(std::filesystem::path(MOEPACK_SOURCE_DIR) / "fixtures" / "tiny-moe",
                          dir_ / "model");
  }
  fixtures::TempDir dir_;
};

TEST_F(LicenseOfModel, IsEmptyWithoutACard) {
  const auto license = Read();
  ASSERT_TRUE(license) << license.error().message;
  EXPECT_TRUE(license->empty());
}

TEST_F(LicenseOfModel, ComesFromTheReadmeOfSafetensors) {
  WriteCard("---\nlicense: mit\n---\n# A model\n");
  const auto license = Read();
  ASSERT_TRUE(license) << license.error().message;
  EXPECT_EQ(license->id, "mit");
}

TEST_F(LicenseOfModel, NamesACardThatCannotBeRead) {
  fixtures::WriteFile(dir_ / "model" / "README.md", "");
  std::filesystem::resize_file(dir_ / "model" / "README.md", uint64_t{17} << 20);
  const auto license = Read();
  ASSERT_FALSE(license);
  EXPECT_NE(license.error().message.find("README.md"), std::string::npos)
      << license.error().message;
}

using testing::HasSubstr;

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

GgufMetadata GeneralKeysOf(const fs::path& root, const ModelNames& names = {"", "a-family"}) {
  GgufMetadata metadata;
  const Status status = AddGeneralKeys(LocalTree(root), "arch", names, metadata);
  EXPECT_TRUE(status) << status.error().message;
  return metadata;
}

TEST(GeneralKeys, SpellTitlesAsLlamaCppDoes) {
  EXPECT_EQ(TitleOf("qwen3-moe"), "Qwen3 Moe");
  EXPECT_EQ(TitleOf("Qwen3-30B-A3B-Base"), "Qwen3 30B A3B Base");
  EXPECT_EQ(TitleOf("deepseek-v3"), "Deepseek v3");
  EXPECT_EQ(TitleOf("glm-4.5"), "Glm 4.5");
  EXPECT_EQ(TitleOf("kimi-k2.5"), "Kimi K2.5");
  EXPECT_EQ(TitleOf("Mixtral-8x7B-v0.1"), "Mixtral 8x7B v0.1");
  EXPECT_EQ(TitleOf("8x7b-model"), "8x7b Model");
  EXPECT_EQ(TitleOf(""), "");
}

TEST(GeneralKeys, NameTheModelButNeverItsFolder) {
  const fixtures::TempDir dir;
  const fs::path cached = dir / "models--org--Some-Model" / "snapshots" / "0123abcd";
  for (const fs::path& root : {dir / "tiny-moe/", cached}) {
    fs::create_directories(root);
    const GgufMetadata metadata = GeneralKeysOf(root);
    EXPECT_EQ(metadata.String("general.architecture"), "arch");
    EXPECT_EQ(metadata.String("general.type"), "model");
    EXPECT_EQ(metadata.String("general.name"), "A Family");
    EXPECT_EQ(metadata.entries().size(), 3u) << "no other keys are written";
  }
}

TEST(GeneralKeys, TakeTheIdInTheConfigButNoLocalPath) {
  const fixtures::TempDir dir;
  const auto name = [&](const ModelNames& names) {
    return std::string(*GeneralKeysOf(dir.path(), names).String("general.name"));
  };
  EXPECT_EQ(name({"allenai/OLMoE-7B-A1B", "f"}), "OLMoE 7B A1B");
  EXPECT_EQ(name({"", "qwen3-moe"}), "Qwen3 Moe");
  for (const char* path : {"/home/me/model", "./model", "model", "a/b/c", "../model", "model/", "",
                           "my files/model", "C:\\model"}) {
    EXPECT_EQ(name({path, "some-family"}), "Some Family") << path;
  }
}

TEST(GeneralKeys, TakeTheFieldsOfTheModelCard) {
  const fixtures::TempDir dir;
  Write(dir / "README.md",
        "---\nmodel_name: Given\nlicense: other\nlicense_name: own\npipeline_tag: text-generation\n"
        "tags: [moe]\nbase_model: org-x/Model-1\ndatasets:\n- plain\n---\n");
  const GgufMetadata metadata = GeneralKeysOf(dir.path());
  EXPECT_EQ(metadata.String("general.name"), "Given");
  EXPECT_EQ(metadata.String("general.license"), "other");
  EXPECT_EQ(metadata.String("general.license.name"), "own");
  EXPECT_EQ(*metadata.Find("general.base_model.count"), GgufValue::U32(1));
  EXPECT_EQ(metadata.String("general.base_model.0.name"), "Model 1");
  EXPECT_EQ(metadata.String("general.base_model.0.organization"), "Org X");
  EXPECT_EQ(metadata.String("general.base_model.0.repo_url"),
            "https://huggingface.co/org-x/Model-1");
  EXPECT_EQ(metadata.String("general.dataset.0.name"), "Plain");
  EXPECT_EQ(metadata.Find("general.dataset.0.repo_url"), nullptr);
  EXPECT_THAT(*metadata.Find("general.tags")->AsStrings(), ElementsAre("moe", "text-generation"));
}

// Keys are looked up one by one: a card of many thousands would take hours.
TEST(GeneralKeys, NameAThousandOriginsAtMost) {
  const fixtures::TempDir dir;
  std::string card = "---\ndatasets:\n";
  for (int i = 0; i < 3000; ++i) card += "- d\n";
  Write(dir / "README.md", card + "---\n");
  const GgufMetadata metadata = GeneralKeysOf(dir.path());
  EXPECT_EQ(*metadata.Find("general.dataset.count"), GgufValue::U32(1024));
  EXPECT_NE(metadata.Find("general.dataset.1023.name"), nullptr);
  EXPECT_EQ(metadata.Find("general.dataset.1024.name"), nullptr);
}

TEST(GeneralKeys, SamplingHasTheTypesOfLlamaCpp) {
  const fixtures::TempDir dir;
  Write(dir / "generation_config.json",
        R"({"top_k": 20, "top_p": 0.8, "temperature": 0.7, "repetition_penalty": 1.05})");
  const GgufMetadata metadata = GeneralKeysOf(dir.path());
  EXPECT_EQ(*metadata.Find("general.sampling.top_k"), GgufValue::I32(20));
  EXPECT_EQ(*metadata.Find("general.sampling.top_p"), GgufValue::F32(0.8f));
  EXPECT_EQ(*metadata.Find("general.sampling.temp"), GgufValue::F32(0.7f));
  EXPECT_EQ(*metadata.Find("general.sampling.penalty_repeat"), GgufValue::F32(1.05f));
  Write(dir / "generation_config.json", R"({"top_k": "many"})");
  GgufMetadata broken;
  EXPECT_THAT(AddGeneralKeys(LocalTree(dir.path()), "arch", {}, broken).error().message,
              HasSubstr("generation_config.json: top_k: expected a whole number"));
}

GgufTensor Tensor(uint64_t values, uint32_t experts = 0) {
  GgufTensor tensor;
  tensor.shape = {values};
  tensor.expert_count = experts;
  tensor.part = experts > 0 ? Part::kExpert : Part::kTrunk;
  return tensor;
}

std::string SizeOf(const std::vector<GgufTensor>& tensors) {
  GgufMetadata metadata;
  AddSizeLabel(tensors, metadata);
  return std::string(*metadata.String("general.size_label"));
}

TEST(SizeLabel, CountsOneExpertAndEverythingElse) {
  EXPECT_EQ(SizeOf({Tensor(600'000), Tensor(5'600'000, 8)}), "8x1.3M");
  EXPECT_EQ(SizeOf({Tensor(21'400'000)}), "21M");
  EXPECT_EQ(SizeOf({Tensor(1'500'000'000)}), "1.5B");
  EXPECT_EQ(SizeOf({Tensor(2'000'000'000'000)}), "2.0T");
  EXPECT_EQ(SizeOf({Tensor(120)}), "0.12K");
}

}  // namespace

}  // namespace moepack
