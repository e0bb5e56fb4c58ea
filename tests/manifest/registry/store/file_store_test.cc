#include "manifest/registry/store/file_store.h"

#include <gmock/gmock.h>

#include "libshard/base/files/local_tree.h"
#include "manifest/registry/open_set.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class FileStoreTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  Result<FileStore> Opened() const {
    return FileStore::Open(std::make_shared<const LocalTree>(Path("dist")));
  }
};

TEST_F(FileStoreTest, GivesTheArtifactThatPublishMakes) {
  const auto store = Opened();
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(store->FindTag("latest")->digest, digest_);
  EXPECT_EQ(store->List()->size(), 1u);
  const auto set = OpenSet(*store, {Reference::Kind::kFiles, Path("dist"), "", ""});
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->digest, digest_);
  for (const BlobRecord& layer : set->oci.layers) EXPECT_TRUE(store->CheckBlob(layer));
}

TEST_F(FileStoreTest, HasNoTags) {
  const auto found = Opened()->FindTag("v1");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_THAT(found.error().message, HasSubstr("a distribution as files, which has no tags"));
}

TEST_F(FileStoreTest, AnotherDigestIsNotFound) {
  const auto store = Opened();
  ASSERT_TRUE(store);
  const auto read = store->ReadManifest({"", "sha256:" + std::string(64, '0')});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kNotFound);
  EXPECT_THAT(read.error().message, HasSubstr("manifest: expected " + digest_));
}

TEST_F(FileStoreTest, AFileOfAnotherSizeIsNamed) {
  const auto store = Opened();
  ASSERT_TRUE(store);
  const auto set = OpenSet(*store, {Reference::Kind::kFiles, Path("dist"), "", ""});
  ASSERT_TRUE(set);
  BlobRecord layer = set->oci.layers.back();
  ++layer.size;
  const auto checked = store->CheckBlob(layer);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kCorrupt);
  EXPECT_THAT(checked.error().message, HasSubstr("file size: expected"));
}

}  // namespace
}  // namespace moepack::registry
