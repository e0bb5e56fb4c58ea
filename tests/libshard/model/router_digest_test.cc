#include "libshard/model/router_digest.h"

#include <gtest/gtest.h>

#include <vector>

#include "libshard/base/files/file.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

// The digest that `profile` writes for this model.
TEST(RouterDigest, EqualsTheDigestInStatistics) {
  const auto model = MoeModel::Open(fs::path(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(RouterDigest(*model).value(), "4d20116d116a8fb0ea9a42729785b816");
}

TEST(RouterDigest, IsTheSameForEveryFloatType) {
  // 1.0 and -2.0.
  const std::vector<uint16_t> bf16 = {0x3f80, 0xc000}, f16 = {0x3c00, 0xc000};
  const std::vector<float> f32 = {1, -2};
  const auto digest = [](const char* type, const auto& values) {
    RouterHash hash;
    hash.Add(*quant::FindSafetensorsFormat(type), std::as_bytes(std::span(values)));
    return hash.Hex();
  };
  EXPECT_EQ(digest("BF16", bf16), digest("F32", f32));
  EXPECT_EQ(digest("F16", f16), digest("F32", f32));
  EXPECT_NE(digest("F16", bf16), digest("F32", f32));
}

TEST(RouterDigest, IsUnknownIfNothingCanBeRead) {
  ModelTensor router;
  router.layer = 0;
  ModelForTest model;
  model.Layers(2, 4, 1).Tensor({.pattern = "gate", .part = Part::kRouter, .role = "router"}, router,
                               "F32", {4, 8});
  EXPECT_EQ(RouterDigest(model.Build()).value(), "");
  EXPECT_EQ(RouterDigest(model.NamesOnly().Build()).value(), "");
}

}  // namespace
}  // namespace moepack
