#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/convert/tokenizers/chat_template.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ChatTemplateTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  Result<GgufMetadata> Read() const {
    GgufMetadata metadata;
    SHARD_TRY(const TokenizerFiles files,
              TokenizerFiles::Read(std::make_shared<LocalTree>(dir_.path())));
    SHARD_CHECK(AddChatTemplate(files, metadata));
    return metadata;
  }
  fixtures::TempDir dir_;
};

TEST_F(ChatTemplateTest, IsKeptByteForByte) {
  const std::string text = "{% if x %}\n\t'\"\\ \u00e9\u4e2d {{ y }}\n\n";
  Write("tokenizer_config.json", Json{{"chat_template", text}}.dump());
  EXPECT_EQ(Read()->String("tokenizer.chat_template"), text);
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", text);
  EXPECT_EQ(Read()->String("tokenizer.chat_template"), text);
}

TEST_F(ChatTemplateTest, TheConfigTakesPrecedenceOverFilesAndJinjaOverJson) {
  Write("chat_template.json", R"({"chat_template": "json"})");
  Write("tokenizer_config.json", "{}");
  EXPECT_EQ(Read()->String("tokenizer.chat_template"), "json");
  Write("chat_template.jinja", "jinja");
  EXPECT_EQ(Read()->String("tokenizer.chat_template"), "jinja");
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(Read()->String("tokenizer.chat_template"), "config");
}

TEST_F(ChatTemplateTest, WithoutATokenizerConfigNothingIsWritten) {
  Write("chat_template.jinja", "jinja");
  EXPECT_THAT(Read()->entries(), IsEmpty());
}

TEST_F(ChatTemplateTest, NamedTemplatesHaveKeysOfTheirOwn) {
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"},
    {"name": "tool use", "template": "t"}, {"name": "rag", "template": "r"}]})");
  const auto metadata = Read();
  ASSERT_TRUE(metadata) << metadata.error().message;
  EXPECT_EQ(metadata->String("tokenizer.chat_template"), "d");
  EXPECT_EQ(metadata->String("tokenizer.chat_template.tool_use"), "t");
  EXPECT_THAT(*metadata->Find("tokenizer.chat_templates")->AsStrings(),
              ElementsAre("tool_use", "rag"));
}

TEST_F(ChatTemplateTest, TwoTemplatesOfOneKeyMustBeTheSame) {
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "a b", "template": "t"},
    {"name": "a-b", "template": "t"}]})");
  EXPECT_THAT(*Read()->Find("tokenizer.chat_templates")->AsStrings(), ElementsAre("a_b"));
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "a b", "template": "t"},
    {"name": "a-b", "template": "u"}]})");
  const auto metadata = Read();
  ASSERT_FALSE(metadata);
  EXPECT_EQ(metadata.error().code, Code::kCorrupt);
  EXPECT_THAT(metadata.error().message,
              HasSubstr(dir_.path().string() +
                        ": chat templates: expected names that differ in letters or digits, found "
                        "\"a b\" and \"a-b\""));
}

TEST_F(ChatTemplateTest, AdditionalFilesNameTheirTemplates) {
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", "d");
  Write("additional_chat_templates/b.jinja", "bb");
  Write("additional_chat_templates/a.jinja", "aa");
  Write("additional_chat_templates/c.txt", "no");
  const auto metadata = Read();
  EXPECT_EQ(metadata->String("tokenizer.chat_template.a"), "aa");
  EXPECT_THAT(*metadata->Find("tokenizer.chat_templates")->AsStrings(), ElementsAre("a", "b"));
}

// Readers refuse a GGUF string that is not UTF-8.
TEST_F(ChatTemplateTest, RefusesATemplateThatIsNotUtf8) {
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", "a\xff");
  const auto metadata = Read();
  ASSERT_FALSE(metadata);
  EXPECT_EQ(metadata.error().code, Code::kCorrupt);
  EXPECT_THAT(metadata.error().message, HasSubstr("\"default\": expected UTF-8"));
}

TEST_F(ChatTemplateTest, RefusesTwoHundredThousandTemplatesAndVeryLongNames) {
  Json list = Json::array();
  for (int i = 0; i < 200'000; ++i) {
    list.push_back({{"name", "n" + std::to_string(i)}, {"template", ""}});
  }
  Write("tokenizer_config.json", Json{{"chat_template", list}}.dump());
  const auto many = Read();
  ASSERT_FALSE(many);
  EXPECT_THAT(many.error().message,
              HasSubstr("chat templates: expected at most 1024, found 200000"));
  list = Json::array({{{"name", std::string(70'000, 'n')}, {"template", ""}}});
  Write("tokenizer_config.json", Json{{"chat_template", list}}.dump());
  const auto long_name = Read();
  ASSERT_FALSE(long_name);
  EXPECT_THAT(long_name.error().message, HasSubstr("name: expected at most 256 bytes"));
}

TEST_F(ChatTemplateTest, RefusesValuesThatAreNotTemplates) {
  for (const char* value : {"7", R"([{"name": "x"}])", R"([{"name": 1, "template": "t"}])"}) {
    Write("tokenizer_config.json", std::string(R"({"chat_template": )") + value + "}");
    const auto metadata = Read();
    ASSERT_FALSE(metadata) << value;
    EXPECT_EQ(metadata.error().code, Code::kCorrupt);
    EXPECT_THAT(metadata.error().message,
                HasSubstr("chat_template: expected a text or a list of named ones"));
  }
}

// Python opens a .jinja file as text; inside JSON, line ends are escapes.
TEST_F(ChatTemplateTest, LineEndsOfJinjaFilesBecomeThoseOfLlamaCppsConverter) {
  const std::string text = "{% if x %}\r\n\r\n{{ y }}\r\r\nz\r";
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", text);
  Write("additional_chat_templates/tool.jinja", text);
  const auto metadata = Read();
  ASSERT_TRUE(metadata) << metadata.error().message;
  EXPECT_EQ(metadata->String("tokenizer.chat_template"), "{% if x %}\n\n{{ y }}\n\nz\n");
  EXPECT_EQ(metadata->String("tokenizer.chat_template.tool"), "{% if x %}\n\n{{ y }}\n\nz\n");
  Write("tokenizer_config.json", Json{{"chat_template", text}}.dump());
  EXPECT_EQ(Read()->String("tokenizer.chat_template"), text);
}

}  // namespace
}  // namespace moepack
