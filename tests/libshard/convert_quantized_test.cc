// From a checkpoint straight to every quantization that golden/convert lists: types, bytes and keys
// of llama-quantize, with and without importance matrix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

class ConvertQuantized : public testing::TestWithParam<Case> {};

TEST_P(ConvertQuantized, HasTheTypesAndBytesOfLlamaQuantize) {
  const Case& test = GetParam();
  const fs::path folder = golden::Folder(test.family, "model.safetensors.index.json");
  if (folder.empty()) GTEST_SKIP() << "no golden checkpoint " << test.family << " on this machine";
  const auto model = MoeModel::Open(folder);
  ASSERT_TRUE(model) << model.error().message;
  auto gguf = ToGguf(*model, {});
  ASSERT_TRUE(gguf) << gguf.error().message;
  if (test.importance) ApplyMatrix(folder, *gguf);
  RecipeOptions options;
  options.recipe = test.recipe;
  const auto applied = ApplyRecipe(options, *gguf);
  ASSERT_TRUE(applied) << applied.error().message;
  const Json listing = golden::Read(folder / test.listing);
  EXPECT_THAT(golden::CompareKeys(gguf->metadata, listing.at("kv_changed"), false), IsEmpty());
  EXPECT_THAT(golden::CompareTensors(model->checkpoint(), *gguf, listing.at("tensors")), IsEmpty());
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const std::string family = info.param.family == std::string("mixtral") ? "Mixtral" : "Qwen3Moe";
  return Cat(family, info.param.recipe, info.param.importance ? "WithImportance" : "");
}
INSTANTIATE_TEST_SUITE_P(Golden, ConvertQuantized, testing::ValuesIn(kCases), NameOf);

}  // namespace
}  // namespace shard
