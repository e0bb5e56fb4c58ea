#include <gtest/gtest.h>

#include <filesystem>

#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

TEST(OwnHead, IsOneWithOtherBytesThanTheEmbedding) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  EXPECT_TRUE(*sample.Open()->HasOwnHead());
  std::string bytes = sample.Tensor("model.embed_tokens.weight").bytes;
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_FALSE(*sample.Open()->HasOwnHead());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_TRUE(*sample.Open()->HasOwnHead()) << "the last byte counts, too";
  sample.Remove("lm_head");
  EXPECT_FALSE(*sample.Open()->HasOwnHead());
}

TEST(OwnHead, IsFoundInTablesThatAreReadInPieces) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  const uint64_t rows = (5u << 20) / 16;
  sample.Reshape("model.embed_tokens.weight", {rows, 4});
  sample.Reshape("lm_head.weight", {rows, 4});
  std::string bytes = sample.Tensor("model.embed_tokens.weight").bytes;
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_FALSE(*sample.Open()->HasOwnHead());
  bytes[4u << 20] = static_cast<char>(bytes[4u << 20] ^ 1);
  sample.Tensor("lm_head.weight").bytes = bytes;
  EXPECT_TRUE(*sample.Open()->HasOwnHead());
}

TEST(OwnHead, IsLookedForOnlyOnceForAllCopiesOfAModel) {
  const ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  const MoeModel copy = *model;
  EXPECT_TRUE(*model->HasOwnHead());
  std::filesystem::remove(sample.path() / "model.safetensors");
  EXPECT_TRUE(*copy.HasOwnHead());
}

TEST(OwnHead, IsAnErrorIfTheFileHasChangedSinceItWasOpened) {
  const ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  std::filesystem::remove(sample.path() / "model.safetensors");
  EXPECT_FALSE(model->HasOwnHead());
}

}  // namespace
}  // namespace moepack
