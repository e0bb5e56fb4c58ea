#include "libshard/model/router_digest.h"

#include <gtest/gtest.h>

#include "libshard/base/file.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

// What `profile` writes for this model.
TEST(RouterDigest, IsThatOfStatistics) {
  const auto model = MoeModel::Open(fs::path(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(RouterDigest(*model).value(), "4d20116d116a8fb0ea9a42729785b816");
}

TEST(RouterDigest, IsUnknownWhereNothingCanBeRead) {
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
