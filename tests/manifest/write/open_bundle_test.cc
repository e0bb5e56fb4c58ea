#include "manifest/write/open_bundle.h"

#include <gmock/gmock.h>

#include "libshard/base/files/local_tree.h"
#include "manifest/document/manifest_json.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/find_bundle.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

constexpr const char* kFile = "groups/001/experts.safetensors";

TEST(OpenBundle, AFileThatWasNotPulledIsAbsentWithAHint) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(tiny::Write(dir / "dist"));
  const auto manifest = ReadManifest((dir / "dist").string());
  ASSERT_TRUE(manifest) << manifest.error().message;
  const auto tree = std::make_shared<const LocalTree>(dir / "dist");
  const BundleRecord& record = *FindBundle(*manifest, kFile);
  EXPECT_TRUE(OpenBundle(tree, record, 0));
  std::filesystem::remove(dir / "dist" / kFile);
  const auto missing = OpenBundle(tree, record, 0);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().hint, "");
  fixtures::WriteFile(dir / "dist/pulled.json", "{}");
  const auto not_pulled = OpenBundle(tree, record, 0);
  ASSERT_FALSE(not_pulled);
  EXPECT_EQ(not_pulled.error().message, missing.error().message);
  EXPECT_THAT(not_pulled.error().hint, HasSubstr("dist/pulled.json names the groups"));
  EXPECT_THAT(not_pulled.error().hint, HasSubstr("pull the others, too"));
}

}  // namespace
}  // namespace moepack::manifest
