#include "libshard/check/promised_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;

Result<PromisedStorage> StorageOf(const std::string& section) {
  const std::string text = R"({"torch_dtype": "bfloat16", "quantization_config": )" + section + "}";
  SHARD_TRY(const HfConfig config, HfConfig::Parse("c.json", text));
  ModelConfig model;
  model.quant_method = "fp8";
  return ReadStorage(config, model, Family());
}

TEST(PromisedStorage, Fp8InBlocksLeavesOutTheModulesThatTheConfigNames) {
  const auto storage = StorageOf(
      R"({"quant_method": "fp8", "weight_block_size": [128, 64], "ignored_layers": ["a.b"]})");
  ASSERT_TRUE(storage) << storage.error().message;
  EXPECT_EQ(storage->plain, "BF16");
  EXPECT_EQ(storage->description, "F8_E4M3 in blocks of 128x64");
  EXPECT_THAT(storage->excluded, ElementsAre("a.b"));
}

TEST(PromisedStorage, AMethodThatIsNotFollowedIsNamed) {
  const auto storage = StorageOf(R"({"quant_method": "fp8"})");
  ASSERT_TRUE(storage) << storage.error().message;
  EXPECT_EQ(storage->description, "BF16");
  EXPECT_EQ(storage->unfollowed, "fp8");
}

// Otherwise an FP8 model would be sized as BF16.
TEST(PromisedStorage, FieldsOfAWrongTypeAreCorrupt) {
  const auto storage =
      StorageOf(R"({"quant_method": "fp8", "weight_block_size": [128, 128], "ignore": "lm_head"})");
  ASSERT_FALSE(storage);
  EXPECT_EQ(storage.error().code, Code::kCorrupt);
  EXPECT_EQ(storage.error().message.find("c.json: quantization_config.ignore: expected "), 0u)
      << storage.error().message;
}

}  // namespace
}  // namespace moepack
