#include "manifest/registry/stored_manifest.h"

#include <gmock/gmock.h>

#include "manifest/registry/tag.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class StoredManifestTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  OciLayout Layout() const {
    auto layout = OciLayout::Open(Path("layout"));
    if (!layout) throw std::runtime_error(layout.error().message);
    return *std::move(layout);
  }
};

TEST_F(StoredManifestTest, ATagAndADigestGiveTheSameRecord) {
  const OciLayout layout = Layout();
  const auto by_tag = FindStored(layout, Ref());
  const auto by_digest = FindStored(layout, Ref().With("", digest_));
  ASSERT_TRUE(by_tag && by_digest);
  EXPECT_EQ(by_tag->text, by_digest->text);
  EXPECT_EQ(by_digest->blob.media_type, kManifestType);
  EXPECT_EQ(by_digest->blob.size, by_digest->text.size());
  EXPECT_TRUE(by_tag->blob.annotations.empty()) << "the tag must not become part of the manifest";
}

TEST_F(StoredManifestTest, AManifestOfAnotherTypeThanListedIsCorrupt) {
  Json index = Read("layout/index.json");
  index["manifests"][0]["mediaType"] = kIndexType;
  fixtures::WriteFile(dir_ / "layout/index.json", index.dump());
  const auto stored = FindStored(Layout(), Ref());
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, Code::kCorrupt);
  EXPECT_THAT(stored.error().message,
              HasSubstr("mediaType: expected \"application/vnd.oci.image.i"));
}

TEST_F(StoredManifestTest, FindsEachViewOfTheSetOnceWithItsTags) {
  ASSERT_TRUE(AddTags(Ref("v1-g001"), {"node"}, {}));
  const auto views = FindViews(Layout(), digest_);
  ASSERT_TRUE(views) << views.error().message;
  ASSERT_EQ(views->size(), 3u);
  EXPECT_EQ((*views)[1].group, 1u);
  EXPECT_THAT((*views)[1].tags, ElementsAre("v1-g001", "node"));
  EXPECT_TRUE(FindViews(Layout(), "sha256:" + std::string(64, '0'))->empty());
}

TEST_F(StoredManifestTest, AViewOfAMalformedGroupIsCorrupt) {
  const std::string set = digest_;
  Change([&](Json& manifest) {
    manifest["annotations"]["org.moepack.view.of"] = set;
    manifest["annotations"]["org.moepack.view.group"] = "1";
  });
  const auto views = FindViews(Layout(), set);
  ASSERT_FALSE(views);
  EXPECT_EQ(views.error().code, Code::kCorrupt);
  EXPECT_THAT(views.error().message, HasSubstr("view.group: expected a group, found \"1\""));
}

// For example, a view that was published again: the tag decides which of the two counts.
TEST_F(StoredManifestTest, ChoosesOneViewOfEachGroup) {
  const auto view = [](const char* text, uint32_t group, std::vector<std::string> tags) {
    return StoredView{{{}, text}, group, std::move(tags)};
  };
  const auto chosen = OneOfEachGroup({view("old", 0, {}), view("new", 0, {"v1-g000"}),
                                      view("one", 1, {}), view("two", 1, {"v2-g001"})},
                                     "v1");
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0].manifest.text, "new");
  EXPECT_EQ(chosen[1].manifest.text, "one");
}

TEST_F(StoredManifestTest, FindsNoSignaturesIfThereAreNone) {
  const auto found = FindStoredSignatures(Layout(), digest_);
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
}

}  // namespace
}  // namespace moepack::registry
