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
  EXPECT_EQ(RouterDigest(ModelForTest().Layers(2, 4, 1).Build()).value(), "");
  EXPECT_EQ(RouterDigest(ModelForTest().Layers(2, 4, 1).NamesOnly().Build()).value(), "");
}

}  // namespace
}  // namespace moepack
