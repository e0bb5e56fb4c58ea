// Whole checkpoints against what llama.cpp's own converter makes of them: every key and the bytes
// of every tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/gguf_model.h"
#include "tests/libshard/golden_listing.h"

namespace shard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// As `quantize --recipe BF16` or F32 sets the types: MXFP4 stays what it is.
void UseType(const char* type, GgufModel& model) {
  for (GgufTensor& tensor : model.tensors) {
    if (!tensor.fixed && tensor.stored->name != "mxfp4") tensor.type = quant::FindFormat(type);
  }
}

struct Expected {
  const char* listing = "expected.gguf.json";
  ConvertOptions options = {};
  const char* type = "bf16";
  testing::Matcher<std::vector<std::string>> warnings = IsEmpty();
};

void Compare(const std::string& family, const Expected& expected = {}) {
  const fs::path folder = golden::Folder(family, "tokenizer_config.json");
  if (folder.empty()) GTEST_SKIP() << "no golden checkpoint " << family << " on this machine";
  const auto model = MoeModel::Open(folder);
  ASSERT_TRUE(model) << model.error().message;
  auto gguf = ToGguf(*model, expected.options);
  ASSERT_TRUE(gguf) << gguf.error().message;
  UseType(expected.type, *gguf);
  const Json listing = golden::Read(folder / expected.listing);
  EXPECT_THAT(golden::CompareKeys(gguf->metadata, listing.at("kv"), true), IsEmpty());
  EXPECT_THAT(golden::CompareTensors(model->checkpoint(), *gguf, listing.at("tensors")), IsEmpty());
  EXPECT_THAT(gguf->warnings, expected.warnings);
}

TEST(ConvertGolden, Qwen3MoeHasTheSameKeysAndBytes) { Compare("qwen3-moe"); }

TEST(ConvertGolden, Qwen2MoeHasTheSameKeysAndBytes) { Compare("qwen2-moe"); }

TEST(ConvertGolden, Qwen35MoeHasTheSameKeysAndBytes) {
  Compare("qwen3.5-moe", {.warnings = ElementsAre(HasSubstr("left out 14 vision tensors"))});
}

TEST(ConvertGolden, Qwen35MoeWithoutItsMtpBlockHasTheSameKeysAndBytes) {
  Compare("qwen3.5-moe", {.listing = "expected-no-mtp.gguf.json",
                          .options = {.pre = "", .mtp = false},
                          .warnings = ElementsAre(HasSubstr("left out 14 vision tensors"))});
}

TEST(ConvertGolden, DeepseekV3OutOfFp8HasTheSameKeysAndBytes) {
  Compare("deepseek-v3",
          {.warnings = ElementsAre(HasSubstr("left out 76 tensors of blocks for "))});
}

TEST(ConvertGolden, DeepseekV3OutOfFp8IsExactInF32) {
  Compare("deepseek-v3", {.listing = "expected-f32.gguf.json",
                          .type = "f32",
                          .warnings = ElementsAre(HasSubstr("left out 76 tensors"))});
}

TEST(ConvertGolden, KimiK25OutOfInt4IsExactInF32) {
  Compare("kimi-k2.5", {.listing = "expected-f32.gguf.json",
                        .type = "f32",
                        .warnings = ElementsAre(HasSubstr("left out 15 vision tensors"))});
}

TEST(ConvertGolden, KimiK25OutOfInt4HasTheSameKeysAndBytes) {
  Compare("kimi-k2.5", {.warnings = ElementsAre(HasSubstr("left out 15 vision tensors"))});
}

TEST(ConvertGolden, GptOssOutOfMxfp4HasTheSameKeysAndBytes) { Compare("gpt-oss"); }

TEST(ConvertGolden, Glm45HasTheSameKeysAndBytes) { Compare("glm-4.5"); }

TEST(ConvertGolden, Glm45WithoutItsMtpBlockHasTheSameKeysAndBytes) {
  Compare("glm-4.5",
          {.listing = "expected-no-mtp.gguf.json", .options = {.pre = "", .mtp = false}});
}

TEST(ConvertGolden, Llama4HasTheSameKeysAndBytes) {
  Compare("llama-4", {.warnings = ElementsAre(HasSubstr("left out 22 vision tensors"))});
}

TEST(ConvertGolden, MixtralHasTheSameKeysAndBytes) { Compare("mixtral"); }

}  // namespace
}  // namespace shard
