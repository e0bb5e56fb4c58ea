#include "manifest/overlay/distribution_routers.h"

#include <gtest/gtest.h>

#include "libshard/base/files/local_tree.h"
#include "libshard/model/router_digest.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::manifest {
namespace {

class DistributionRouters : public testing::Test {
 protected:
  void Write(const WriteOptions& options) {
    const auto written = tiny::Write(dir_ / "dist", options);
    ASSERT_TRUE(written) << written.error().message;
  }
  std::string Digest() {
    const auto tree = std::make_shared<const LocalTree>((dir_ / "dist").string());
    const auto manifest = ReadManifest(*tree);
    EXPECT_TRUE(manifest);
    const auto digest = RouterDigest(tree, *manifest, "");
    EXPECT_TRUE(digest) << digest.error().message;
    return digest ? *digest : "none";
  }
  const fixtures::TempDir dir_;
};

TEST_F(DistributionRouters, HaveTheSameDigestAsTheModel) {
  Write(tiny::Only());
  EXPECT_EQ(Digest(), moepack::RouterDigest(tiny::Model()).value());
}

// With other spellings of the types, and with routers in a separate file.
TEST_F(DistributionRouters, HaveTheSameDigestInGguf) {
  WriteOptions options = tiny::Only();
  options.gguf.emplace().recipe.recipe = "Q8_0";
  Write(options);
  EXPECT_EQ(Digest(), moepack::RouterDigest(tiny::Model()).value());
}

TEST_F(DistributionRouters, AreUnknownIfTheirFileIsMissing) {
  Write(tiny::Only());
  fs::remove(dir_ / "dist/trunk/trunk.safetensors");
  EXPECT_EQ(Digest(), "");
  fs::remove_all(dir_ / "dist");
  Write(tiny::Only({"group:1"}));
  EXPECT_EQ(Digest(), "") << "no asset states the family";
}

}  // namespace
}  // namespace moepack::manifest
