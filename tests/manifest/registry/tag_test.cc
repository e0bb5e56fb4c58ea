#include "manifest/registry/tag.h"

#include <gmock/gmock.h>

#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class TagTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  std::vector<std::string> Tags() const {
    std::vector<std::string> tags;
    const Json index = Read("layout/index.json");
    for (const Json& entry : index["manifests"])
      tags.push_back(entry["annotations"]["org.opencontainers.image.ref.name"]);
    return tags;
  }
};

TEST_F(TagTest, TagsASetWithItsViews) {
  const auto report = AddTags(Ref(), {"stable", "v1.0"}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->tags.size(), 8u);
  EXPECT_EQ(report->digest(), digest_);
  const auto layout = OciLayout::Open(Path("layout"));
  EXPECT_EQ(layout->FindTag("v1.0")->digest, digest_);
  EXPECT_EQ(layout->FindTag("stable-g002")->digest, layout->FindTag("v1-g002")->digest);
  EXPECT_TRUE(PullGroups({}, Ref("stable-g001")));
}

TEST_F(TagTest, TagsADigestAndAViewAlone) {
  const auto layout = OciLayout::Open(Path("layout"));
  const std::string view = layout->FindTag("v1-g001")->digest;
  ASSERT_TRUE(AddTags(Ref().With("", view), {"node"}, {}));
  ASSERT_TRUE(AddTags(Ref(), {"alone"}, {.views = false}));
  EXPECT_THAT(Tags(), UnorderedElementsAre("v1", "v1-g000", "v1-g001", "v1-g002", "node", "alone"));
}

TEST_F(TagTest, ADryRunChangesNothing) {
  const auto before = tiny::Tree(dir_ / "layout");
  const auto report = AddTags(Ref(), {"stable"}, {.dry_run = true});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->tags.size(), 4u);
  EXPECT_TRUE(tiny::Tree(dir_ / "layout") == before);
}

TEST_F(TagTest, MovesATagOnlyOnRequest) {
  ASSERT_TRUE(AddTags(Ref("v1-g000"), {"stable"}, {}));
  const auto refused = AddTags(Ref(), {"stable"}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().hint, HasSubstr("--force"));
  ASSERT_TRUE(AddTags(Ref(), {"stable"}, {.force = true}));
  EXPECT_EQ(OciLayout::Open(Path("layout"))->FindTag("stable")->digest, digest_);
}

TEST_F(TagTest, RefusesADigestThatIsNotThatOfAManifest) {
  const auto before = tiny::Tree(dir_ / "layout");
  for (const char* path : {"distribution.json", "assets/config.json"}) {
    const auto refused = AddTags(Ref().With("", DigestOfLayer(path)), {"prod"}, {});
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().code, Code::kCorrupt);
    EXPECT_THAT(refused.error().message, HasSubstr("expected a manifest or an index"));
  }
  EXPECT_TRUE(tiny::Tree(dir_ / "layout") == before);
}

TEST_F(TagTest, RefusesTagsThatAreTheSame) {
  const auto before = tiny::Tree(dir_ / "layout");
  for (const std::vector<std::string>& tags :
       {std::vector<std::string>{"a", "a"}, {"a", "a-g000"}, {"a-g002", "a"}}) {
    for (const bool dry_run : {false, true}) {
      const auto refused = AddTags(Ref(), tags, {.dry_run = dry_run});
      ASSERT_FALSE(refused) << tags[1];
      EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
      EXPECT_THAT(refused.error().message, HasSubstr("expected it once, found it twice"));
    }
  }
  EXPECT_TRUE(tiny::Tree(dir_ / "layout") == before);
  EXPECT_TRUE(AddTags(Ref(), {"a", "a-g000"}, {.views = false}));
}

TEST_F(TagTest, DoesNotCreateAMissingLayout) {
  const auto refused = AddTags(Ref("v1", "absent"), {"stable"}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_FALSE(fs::exists(dir_ / "absent"));
}

TEST_F(TagTest, RemovingATagRemovesTheTagsOfItsViews) {
  ASSERT_TRUE(AddTags(Ref(), {"stable"}, {}));
  const auto removed = RemoveTags(Ref(), {});
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(removed->tags.size(), 4u);
  EXPECT_THAT(removed->other, ElementsAre("stable"));
  EXPECT_THAT(Tags(), UnorderedElementsAre("stable", "stable-g000", "stable-g001", "stable-g002"));
  const auto alone = RemoveTags(Ref("stable"), {.views = false});
  ASSERT_TRUE(alone);
  EXPECT_THAT(Tags(), UnorderedElementsAre("stable-g000", "stable-g001", "stable-g002"));
}

TEST_F(TagTest, RemovesOnlyTagsOfALayout) {
  const auto code = [](const Reference& reference) {
    const auto removed = RemoveTags(reference, {});
    return removed ? Code::kInterrupted : removed.error().code;
  };
  EXPECT_EQ(code({Reference::Kind::kServer, "registry.example/model", "v1", ""}),
            Code::kUnsupported);
  EXPECT_EQ(code(Ref("")), Code::kInvalidArgument);
  EXPECT_EQ(code(Ref().With("v1", digest_)), Code::kInvalidArgument);
  EXPECT_EQ(code(Ref("v9")), Code::kNotFound);
  EXPECT_EQ(code(Ref("v1", "absent")), Code::kNotFound);
}

}  // namespace
}  // namespace moepack::registry
