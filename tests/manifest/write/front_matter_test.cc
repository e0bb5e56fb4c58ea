#include "manifest/write/front_matter.h"

#include <gmock/gmock.h>

#include "libshard/base/text/text.h"
#include "libshard/convert/model_card.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A Q4_K_M distribution of this moepack, as far as front matter is concerned.
Manifest Quantized() {
  Manifest manifest = sample::Make().manifest;
  manifest.recipe.name = "Q4_K_M";
  for (BundleRecord& bundle : manifest.bundles) bundle.format = "gguf";
  manifest.bundles[0].tensors[0].dtype = "q4_K";
  return manifest;
}

TEST(FrontMatter, NamesBaseModelRelationAndLibraryForQuantizedBundles) {
  EXPECT_EQ(FrontMatter(Quantized()),
            "---\n"
            "base_model: \"example/tiny\"\n"
            "base_model_relation: quantized\n"
            "library_name: gguf\n"
            "tags:\n"
            "  - moe\n"
            "  - mixture-of-experts\n"
            "  - moepack\n"
            "  - gguf\n"
            "  - \"example-moe\"\n"
            "---\n");
}

TEST(FrontMatter, StatesTheLicenceOfTheBaseModel) {
  Manifest manifest = Quantized();
  manifest.model.license = {"other", "glm \"5\"", "https://example.com/LICENSE"};
  EXPECT_THAT(FrontMatter(manifest), HasSubstr("license: \"other\"\n"
                                               "license_name: \"glm \\\"5\\\"\"\n"
                                               "license_link: \"https://example.com/LICENSE\"\n"));
  const ModelCard card = ParseModelCard(FrontMatter(manifest));
  EXPECT_THAT(card.at("license"), ElementsAre("other"));
}

// The Hub has no term for a model whose bytes were split but not changed.
TEST(FrontMatter, ClaimsNoRelationForCopiedBytes) {
  const std::string text = FrontMatter(sample::Make().manifest);
  EXPECT_THAT(text, HasSubstr("base_model: \"example/tiny\"\n"));
  EXPECT_THAT(text, Not(HasSubstr("base_model_relation")));
  EXPECT_THAT(text, Not(HasSubstr("library_name")));
  EXPECT_THAT(text, HasSubstr("  - safetensors\n"));
  Manifest converted = Quantized();
  converted.recipe.name = "BF16";
  converted.bundles[0].tensors[0].dtype = "bf16";
  EXPECT_THAT(FrontMatter(converted), Not(HasSubstr("base_model_relation")));
}

TEST(FrontMatter, FallsBackToTheSourceRepositoryAsBaseModel) {
  Manifest manifest = Quantized();
  manifest.model.id = "";
  EXPECT_THAT(FrontMatter(manifest), Not(HasSubstr("base_model")));
  for (SourceRecord& source : manifest.model.source)
    source.origin = Origin{"hf://owner/name@0123/" + source.file, "0123", "", ""};
  EXPECT_THAT(FrontMatter(manifest), HasSubstr("base_model: \"owner/name\"\n"));
}

TEST(FrontMatter, LeavesOutANameThatIsNotAHubName) {
  for (const char* id :
       {"tiny", "a/b/c", "../etc", "a/b\n---\nlicense: mit", "a/b\": x", "[a/b]"}) {
    Manifest manifest = Quantized();
    manifest.model.id = id;
    EXPECT_THAT(FrontMatter(manifest), Not(HasSubstr("base_model"))) << id;
  }
}

// A family may come from a user's file.
TEST(FrontMatter, KeepsHostileTextInOneValue) {
  for (const std::string hostile :
       {"x\n---\nlicense: mit", "\"\nlicense: mit", "x\\", "a: b # c", "\x1b[2J", "- y", "\xff\xfe",
        "\xe2\x80\xa8license: mit", "'", "*a", "!!binary x", "{", "null"}) {
    Manifest manifest = Quantized();
    manifest.model.family = hostile;
    const std::string text = FrontMatter(manifest);
    const std::vector<std::string> lines = Split(text, '\n');
    ASSERT_EQ(lines.size(), 12u) << text;
    EXPECT_EQ(lines[9], "  - " + YamlText(hostile));
    EXPECT_EQ(lines[10], "---");
    EXPECT_FALSE(ParseModelCard(text).contains("license")) << text;
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  }
  EXPECT_EQ(YamlText("a\"b\\c\n"), "\"a\\\"b\\\\c\\\\x0a\"");
}

TEST(FrontMatter, ReadsBackAsAModelCard) {
  const ModelCard card = ParseModelCard(FrontMatter(Quantized()) + "# Title\n");
  EXPECT_THAT(card.at("base_model"), ElementsAre("example/tiny"));
  EXPECT_THAT(card.at("tags"),
              ElementsAre("moe", "mixture-of-experts", "moepack", "gguf", "example-moe"));
}

TEST(FrontMatter, IsPutBeforeTextWithoutFrontMatter) {
  const Manifest manifest = Quantized();
  EXPECT_EQ(WithFrontMatter(manifest, "# Mine\n"), FrontMatter(manifest) + "# Mine\n");
  for (const char* own : {"---\nlicense: mit\n---\n# Mine\n", "---\r\nlicense: mit\r\n---\r\n"})
    EXPECT_EQ(WithFrontMatter(manifest, own), own);
}

}  // namespace
}  // namespace moepack::manifest
