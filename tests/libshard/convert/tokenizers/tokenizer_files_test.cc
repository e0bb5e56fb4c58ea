#include "libshard/convert/tokenizers/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"

namespace moepack {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class TokenizerFilesTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  std::string ErrorOf() const {
    const auto files = TokenizerFiles::Read(std::make_shared<LocalTree>(dir_.path()));
    EXPECT_FALSE(files);
    return files ? "" : files.error().message;
  }
  fixtures::TempDir dir_;
};

TEST(TokenizerJson, IntegersOfAnyLengthAreAllowed) {
  const auto json = ParseTokenizerJson("f", R"({"a": 1000000000000000019884624838656,
    "b": [-1000000000000000019884624838656, 123456789012345678], "c": 0.1234567890123456789012,
    "d": 12345678901234567890e2, "e": "1000000000000000019884624838656 \" 1"})");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->at("a").get<double>(), 1e30);
  EXPECT_EQ(json->at("b")[0].get<double>(), -1e30);
  EXPECT_EQ(json->at("b")[1].get<uint64_t>(), 123456789012345678u);
  EXPECT_EQ(json->at("c").get<double>(), 0.1234567890123456789012);
  EXPECT_EQ(json->at("d").get<double>(), 12345678901234567890e2);
  EXPECT_EQ(json->at("e"), "1000000000000000019884624838656 \" 1");
  EXPECT_FALSE(ParseTokenizerJson("f", "{\"a\": 1000000000000000019884624838656"));
}

// Found by libFuzzer: digits of an exponent were taken for a whole number.
TEST(TokenizerJson, NumbersKeepTheirExponents) {
  for (const char* text :
       {"0e1234567890123456789012", "0E+1234567890123456789012", "5e-1234567890123456789012"}) {
    const auto json = ParseTokenizerJson("f", text);
    ASSERT_TRUE(json) << json.error().message;
    EXPECT_EQ(*json, 0.0) << text;
  }
}

TEST_F(TokenizerFilesTest, AcceptsThatAllFilesAreAbsent) {
  const auto files = TokenizerFiles::Read(std::make_shared<LocalTree>(dir_.path()));
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->tokenizer(), nullptr);
  EXPECT_EQ(files->config(), nullptr);
  EXPECT_EQ(files->Config("bos_token"), nullptr);
  EXPECT_THAT(files->added(), IsEmpty());
}

TEST_F(TokenizerFilesTest, ReadsAddedTokensFromAllThree) {
  Write("tokenizer.json", R"({"added_tokens": [{"id": 7, "content": "<x>", "special": true}]})");
  Write("tokenizer_config.json", R"({"unk_token": null, "added_tokens_decoder":
    {"9": {"content": "nine"}, "8": {"content": "eight", "special": true}}})");
  Write("added_tokens.json", R"({"b": 5, "a": 4})");
  const auto files = TokenizerFiles::Read(std::make_shared<LocalTree>(dir_.path()));
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->added().size(), 1u);
  EXPECT_EQ(files->added()[0].id, 7u);
  EXPECT_TRUE(files->added()[0].special);
  ASSERT_EQ(files->decoder().size(), 2u);
  EXPECT_EQ(files->decoder()[0].text, "eight") << "ascending by id";
  EXPECT_FALSE(files->decoder()[1].special);
  EXPECT_EQ(files->extra()[0].text, "a");
  EXPECT_EQ(files->Config("unk_token"), nullptr) << "null counts as absent";
}

TEST_F(TokenizerFilesTest, RefusesFilesOfAnotherForm) {
  Write("tokenizer.json", "[]");
  EXPECT_THAT(ErrorOf(), HasSubstr("tokenizer.json: expected a JSON object"));
  Write("tokenizer.json", R"({"model": {"vocab": {"a": 0, "a": 1}}})");
  EXPECT_THAT(ErrorOf(), HasSubstr("duplicate key \"a\""));
}

// Parsed as a document, two million of them would take 600 MB.
TEST_F(TokenizerFilesTest, RefusesTwoMillionAddedTokens) {
  std::string text = R"({"added_tokens": [)";
  for (int i = 0; i < 2'000'000; ++i) text += R"({"id":1,"content":"a"},)";
  text.back() = ']';
  Write("tokenizer.json", text + "}");
  EXPECT_THAT(ErrorOf(), HasSubstr("tokenizer.json: JSON: expected at most 4194304 values"));
  text = R"({"added_tokens": [)";
  for (int i = 0; i < 262'145; ++i) text += R"({"id":1,"content":"a"},)";
  text.back() = ']';
  Write("tokenizer.json", text + "}");
  EXPECT_THAT(ErrorOf(), HasSubstr("added_tokens: expected at most 262144 tokens, found 262145"));
}

TEST_F(TokenizerFilesTest, RefusesTokensWithoutIdOrContent) {
  for (const char* list :
       {R"({"added_tokens": {}})", R"({"added_tokens": [7]})",
        R"({"added_tokens": [{"content": "x"}]})", R"({"added_tokens": [{"id": 1}]})",
        R"({"added_tokens": [{"id": -1, "content": "x"}]})",
        R"({"added_tokens": [{"id": 4294967295, "content": "x"}]})",
        R"({"added_tokens": [{"id": 1, "content": "x", "special": 1}]})"}) {
    Write("tokenizer.json", list);
    EXPECT_THAT(ErrorOf(), HasSubstr("added_tokens: expected a token with")) << list;
  }
  fs::remove(dir_ / "tokenizer.json");
  for (const char* decoder :
       {R"({"added_tokens_decoder": []})", R"({"added_tokens_decoder": {"x": {"content": "y"}}})",
        R"({"added_tokens_decoder": {"1": {}}})"}) {
    Write("tokenizer_config.json", decoder);
    EXPECT_THAT(ErrorOf(), HasSubstr("added_tokens_decoder")) << decoder;
  }
  fs::remove(dir_ / "tokenizer_config.json");
  Write("added_tokens.json", R"({"a": "b"})");
  EXPECT_THAT(ErrorOf(), HasSubstr("added_tokens.json: \"a\": expected a token"));
}

}  // namespace
}  // namespace moepack
