// From a checkpoint directly to every quantization that golden/convert lists: types, bytes and keys
// of llama-quantize, with and without an importance matrix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "fixtures/temp_dir.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/recipe/quantize.h"
#include "tests/libshard/convert/golden_cases.h"
#include "tests/libshard/convert/golden_listing.h"

namespace moepack {
namespace {

using testing::IsEmpty;

void ApplyMatrix(const fs::path& folder, GgufModel& model) {
  const auto imatrix = ReadImatrix((folder / "gguf/imatrix.gguf").string());
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  const auto use = ApplyImatrix(*imatrix, model);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ(use->used, 21u);  // all but the three routers, which stay F32
  EXPECT_THAT(use->unknown, IsEmpty());
  NoteImatrix(*imatrix, model.metadata);
}

// Lists of values occur only in the listing that the quantizer's file was made from.
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

// The BF16 file that llama.cpp's converter would write, opened.
Result<MoeModel> Bf16FileOf(const MoeModel& model, const fs::path& directory) {
  QuantizeOptions options;
  options.recipe.recipe = "BF16";
  SHARD_TRY(const TypedGguf typed, PrepareGguf(model, options));
  SHARD_TRY(std::vector<OutputFile> files, WholeGguf(typed.model, {.stem = "bf16"}));
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Start(directory.string(), "test"));
  SHARD_TRY(const PackResult packed, Pack(model.checkpoint().files(), files, staging, {}));
  SHARD_CHECK(staging.Publish(/*force=*/false));
  return MoeModel::Open(directory / files[0].path);
}

class ConvertQuantized : public testing::TestWithParam<golden::QuantizedCase> {
 protected:
  void SetUp() override {
    const std::string family = GetParam().family;
    folder_ = golden::Folder(family, "tokenizer_config.json");
    if (folder_.empty()) GTEST_SKIP() << "no golden checkpoint " << family << " on this machine";
    auto model = MoeModel::Open(folder_);
    ASSERT_TRUE(model) << model.error().message;
    if (GetParam().through_bf16) {
      model = Bf16FileOf(*model, dir_ / "bf16");
      ASSERT_TRUE(model) << model.error().message;
    }
    model_.emplace(*std::move(model));
  }
  fs::path folder_;
  fixtures::TempDir dir_;
  std::optional<MoeModel> model_;
};

TEST_P(ConvertQuantized, HasTheTypesAndBytesOfLlamaQuantize) {
  const golden::QuantizedCase& test = GetParam();
  auto gguf = ToGguf(*model_, {});
  ASSERT_TRUE(gguf) << gguf.error().message;
  if (test.importance) ApplyMatrix(folder_, *gguf);
  RecipeOptions options;
  options.recipe = test.recipe;
  // int4 is decoded and re-encoded there; MXFP4 is not.
  options.repack = test.family != std::string("kimi-k2.5");
  options.allow_requantize = test.family == std::string("gpt-oss");
  const auto applied = ApplyRecipe(options, *gguf);
  ASSERT_TRUE(applied) << applied.error().message;
  Json listing = golden::Read(folder_ / test.listing);
  AddValues(folder_, listing);
  EXPECT_THAT(golden::CompareKeys(gguf->metadata, listing.at("kv_changed"), false), IsEmpty());
  EXPECT_THAT(golden::CompareTensors(model_->checkpoint(), *gguf, listing.at("tensors")),
              IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Listings, ConvertQuantized, testing::ValuesIn(golden::kQuantized),
                         [](const auto& one) {
                           return golden::CaseName(one.param.family, one.param.listing);
                         });

}  // namespace
}  // namespace moepack
