#include "manifest/registry/diff_sets.h"

#include <gmock/gmock.h>

#include "manifest/registry/inspect.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class DiffSetsTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  SetDiff Diff(const Reference& a, const Reference& b,
               std::optional<uint32_t> group = std::nullopt) const {
    auto diff = DiffSets(a, b, group, {});
    if (!diff) throw std::runtime_error(diff.error().message);
    return *std::move(diff);
  }
};

TEST_F(DiffSetsTest, ASetEqualsItself) {
  const SetDiff diff = Diff(Ref(), {Reference::Kind::kFiles, Path("dist"), "", ""});
  EXPECT_TRUE(diff.report.same());
  EXPECT_TRUE(diff.same_base);
  EXPECT_EQ(diff.added + diff.removed, 0u);
  EXPECT_EQ(diff.report.changed_bytes, 0u);
  for (const SetDiff::Node& node : diff.nodes) EXPECT_EQ(node.fetch_bytes, 0u);
}

TEST_F(DiffSetsTest, OnlyItsNodeFetchesAChangedLayer) {
  const Json before = Manifest();
  const std::string old = digest_;
  Change([&](Json& manifest) {
    for (Json& layer : manifest["layers"]) {
      if (layer["annotations"]["org.cncf.model.filepath"] == "groups/001/experts.safetensors")
        layer.update(AddBlob("other experts"));
    }
    manifest["annotations"]["org.moepack.set.id"] = "another";
  });
  const SetDiff diff = Diff(Ref().With("", old), Ref());
  EXPECT_FALSE(diff.same_base);
  EXPECT_EQ(diff.added, 1u);
  EXPECT_EQ(diff.removed, 1u);
  EXPECT_EQ(diff.shared, before["layers"].size() - 1);
  EXPECT_EQ(diff.report.changed_bytes, 13u);
  ASSERT_EQ(diff.report.changes.size(), 2u);
  EXPECT_EQ(diff.report.changes[0].what, "annotation");
  EXPECT_EQ(diff.report.changes[1].name, "groups/001/experts.safetensors");
  EXPECT_THAT(diff.report.changes[1].after, HasSubstr("13 bytes, sha256 "));
  ASSERT_EQ(diff.nodes.size(), 3u);
  EXPECT_EQ(diff.nodes[0].fetch_bytes, 0u);
  EXPECT_EQ(diff.nodes[1].fetch_bytes, 13u);
  EXPECT_EQ(Diff(Ref().With("", old), Ref(), 1).nodes.size(), 1u);
}

TEST_F(DiffSetsTest, ANodeOfAnotherGroupFetchesTheGroup) {
  const SetDiff diff = Diff(Ref("v1-g000"), Ref());
  EXPECT_TRUE(diff.same_base);
  ASSERT_EQ(diff.nodes.size(), 3u);
  EXPECT_EQ(diff.nodes[0].fetch_bytes, 0u);
  EXPECT_EQ(diff.nodes[2].fetch_bytes, Inspect(Ref(), {})->nodes[2].group_bytes);
  EXPECT_EQ(diff.removed, 0u);
}

TEST_F(DiffSetsTest, AMissingGroupIsRefused) {
  const auto diff = DiffSets(Ref(), Ref("v1-g000"), 1, {});
  ASSERT_FALSE(diff);
  EXPECT_EQ(diff.error().code, Code::kInvalidArgument);
  EXPECT_THAT(diff.error().message, HasSubstr("group: expected 0, found 1"));
  EXPECT_EQ(DiffSets(Ref(), Ref("v9"), {}, {}).error().code, Code::kNotFound);
}

// Equal content spelled differently is a different manifest.
TEST_F(DiffSetsTest, ReportsManifestsThatDifferOnlyInSpelling) {
  const std::string old = digest_;
  SetManifest(Manifest().dump(2));
  const SetDiff diff = Diff(Ref().With("", old), Ref());
  ASSERT_EQ(diff.report.changes.size(), 1u);
  EXPECT_EQ(diff.report.changes[0].what, "manifest");
}

}  // namespace
}  // namespace moepack::registry
