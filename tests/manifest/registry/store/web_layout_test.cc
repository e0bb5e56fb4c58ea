#include "manifest/registry/store/web_layout.h"

#include <gmock/gmock.h>

#include "libshard/base/files/local_tree.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

// A directory takes the place of the server: the layout only knows the tree.
class WebLayoutTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  Result<WebLayout> Opened() const {
    return WebLayout::Open(std::make_shared<const LocalTree>(Path("layout")));
  }
};

TEST_F(WebLayoutTest, FindsTagsManifestsAndBlobs) {
  const auto layout = Opened();
  ASSERT_TRUE(layout) << layout.error().message;
  const auto found = layout->FindTag("v1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->digest, digest_);
  EXPECT_EQ(layout->List()->size(), 4u);
  EXPECT_TRUE(layout->ReadManifest(*found));
  EXPECT_TRUE(layout->ReadManifest({"", digest_}));
  EXPECT_EQ(layout->FindTag("v9").error().code, Code::kNotFound);
}

TEST_F(WebLayoutTest, FindsAnUnlistedManifestByItsDigest) {
  fixtures::WriteFile(dir_ / "layout/index.json", R"({"schemaVersion":2,"manifests":[]})");
  const auto layout = Opened();
  ASSERT_TRUE(layout);
  EXPECT_TRUE(layout->ReadManifest({"", digest_}));
  const auto absent = layout->ReadManifest({"", "sha256:" + std::string(64, '0')});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
}

TEST_F(WebLayoutTest, NamesDamagedFiles) {
  const auto layout = Opened();
  ASSERT_TRUE(layout);
  const BlobRecord found = *layout->FindTag("v1");
  std::string bytes = fixtures::ReadFile(BlobPath(digest_));
  std::filesystem::remove(BlobPath(digest_));
  fixtures::WriteFile(BlobPath(digest_), bytes + " ");
  EXPECT_THAT(layout->ReadManifest(found).error().message,
              HasSubstr("size: expected " + std::to_string(bytes.size()) + " bytes, found"));
  bytes[0] = ' ';
  fixtures::WriteFile(BlobPath(digest_), bytes);
  const auto read = layout->ReadManifest(found);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  EXPECT_THAT(read.error().message, HasSubstr("content: expected " + digest_));
  std::filesystem::remove(BlobPath(digest_));
  EXPECT_EQ(layout->ReadManifest(found).error().code, Code::kNotFound);
}

TEST_F(WebLayoutTest, RefusesAPlaceWithoutALayout) {
  const auto none = WebLayout::Open(std::make_shared<const LocalTree>(Path("dist")));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("expected an OCI image layout, found no file"));
  fixtures::WriteFile(dir_ / "layout/oci-layout", R"({"imageLayoutVersion":"2.0.0"})");
  EXPECT_EQ(Opened().error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace moepack::registry
