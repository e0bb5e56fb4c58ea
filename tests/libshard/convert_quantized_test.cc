// From a checkpoint straight to every quantization that golden/convert lists: types, bytes and keys
// of llama-quantize, with and without importance matrix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>

#include "libshard/gguf_model.h"
#include "libshard/imatrix.h"
#include "libshard/recipe.h"
#include "tests/libshard/golden_listing.h"

namespace shard {
namespace {

using testing::IsEmpty;

struct Case {
  const char* family;
  const char* listing;
  const char* recipe;
  bool importance = false;
};

constexpr Case kCases[] = {
    {"qwen3-moe", "expected-q2_k.json", "Q2_K"},
    {"qwen3-moe", "expected-q3_k_m.json", "Q3_K_M"},
    {"qwen3-moe", "expected-q4_0.json", "Q4_0"},
    {"qwen3-moe", "expected-q4_k_m.json", "Q4_K_M"},
    {"qwen3-moe", "expected-q5_k_m.json", "Q5_K_M"},
    {"qwen3-moe", "expected-q6_k.json", "Q6_K"},
    {"qwen3-moe", "expected-q8_0.json", "Q8_0"},
    {"qwen3-moe", "expected-iq4_xs.json", "IQ4_XS"},
    {"qwen3-moe", "expected-mxfp4_moe.json", "MXFP4_MOE"},
    {"qwen3-moe", "expected-q2_k-imatrix.json", "Q2_K", true},
    {"qwen3-moe", "expected-q4_k_m-imatrix.json", "Q4_K_M", true},
    {"qwen3-moe", "expected-iq4_xs-imatrix.json", "IQ4_XS", true},
    {"qwen2-moe", "expected-q4_k_m.json", "Q4_K_M"},
    {"qwen3.5-moe", "expected-q4_k_m.json", "Q4_K_M"},
    {"deepseek-v3", "expected-q4_k_m-from-f32.json", "Q4_K_M"},
    {"kimi-k2.5", "expected-q4_0-from-f32.json", "Q4_0"},
    {"kimi-k2.5", "expected-q4_k_m-from-f32.json", "Q4_K_M"},
    {"gpt-oss", "expected-q4_k_m.json", "Q4_K_M"},
    {"gpt-oss", "expected-mxfp4_moe.json", "MXFP4_MOE"},
    {"glm-4.5", "expected-q4_k_m.json", "Q4_K_M"},
    {"llama-4", "expected-q4_k_m.json", "Q4_K_M"},
    {"mixtral", "expected-q3_k_m.json", "Q3_K_M"},
    {"mixtral", "expected-q4_k_m.json", "Q4_K_M"},
    {"mixtral", "expected-q8_0.json", "Q8_0"},
};

void ApplyMatrix(const fs::path& folder, GgufModel& model) {
  const auto imatrix = ReadImatrix((folder / "gguf/imatrix.gguf").string());
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  const auto use = ApplyImatrix(*imatrix, model);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ(use->used, 21u);  // all but the three routers, which stay F32
  EXPECT_THAT(use->unknown, IsEmpty());
  NoteImatrix(*imatrix, model.metadata);
}

// Lists of values stand only in the listing that the quantizer's file was made from.
void AddValues(const fs::path& folder, Json& listing) {
  std::map<std::string, Json> values;
  const Json source = golden::Read(folder / "expected.gguf.json");
  for (const Json& entry : source.at("tensors")) {
    if (entry.contains("values")) values[entry.at("name")] = entry.at("values");
  }
  for (Json& entry : listing.at("tensors")) {
    const auto found = values.find(entry.at("name").get<std::string>());
    if (found != values.end()) entry["values"] = found->second;
  }
}

class ConvertQuantized : public testing::TestWithParam<Case> {};

TEST_P(ConvertQuantized, HasTheTypesAndBytesOfLlamaQuantize) {
  const Case& test = GetParam();
  const fs::path folder = golden::Folder(test.family, "tokenizer_config.json");
  if (folder.empty()) GTEST_SKIP() << "no golden checkpoint " << test.family << " on this machine";
  const auto model = MoeModel::Open(folder);
  ASSERT_TRUE(model) << model.error().message;
  auto gguf = ToGguf(*model, {});
  ASSERT_TRUE(gguf) << gguf.error().message;
  if (test.importance) ApplyMatrix(folder, *gguf);
  RecipeOptions options;
  options.recipe = test.recipe;
  // int4 is decoded and encoded there, as MXFP4 is not.
  options.repack = test.family != std::string("kimi-k2.5");
  options.allow_requantize = test.family == std::string("gpt-oss");
  const auto applied = ApplyRecipe(options, *gguf);
  ASSERT_TRUE(applied) << applied.error().message;
  Json listing = golden::Read(folder / test.listing);
  AddValues(folder, listing);
  EXPECT_THAT(golden::CompareKeys(gguf->metadata, listing.at("kv_changed"), false), IsEmpty());
  EXPECT_THAT(golden::CompareTensors(model->checkpoint(), *gguf, listing.at("tensors")), IsEmpty());
}

// "qwen3.5-moe" -> "Qwen35Moe".
std::string NameOf(const testing::TestParamInfo<Case>& info) {
  std::string name;
  bool starts = true;
  for (const char* c = info.param.family; *c != '\0'; ++c) {
    const bool letter = std::isalnum(static_cast<unsigned char>(*c)) != 0;
    if (letter) name += static_cast<char>(starts ? std::toupper(*c) : *c);
    starts = *c == '-';
  }
  return Cat(name, info.param.recipe, info.param.importance ? "WithImportance" : "");
}
INSTANTIATE_TEST_SUITE_P(Golden, ConvertQuantized, testing::ValuesIn(kCases), NameOf);

}  // namespace
}  // namespace shard
