#include "manifest/registry/inspect.h"

#include <gmock/gmock.h>

#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/tag.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

using testing::ElementsAre;

class InspectTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  Inspection Page(const Reference& reference) const {
    auto found = Inspect(reference, {});
    if (!found) throw std::runtime_error(found.error().message);
    return *std::move(found);
  }
};

TEST_F(InspectTest, ShowsThePartsNodesTagsAndModelOfASet) {
  ASSERT_TRUE(AddTags(Ref(), {"stable"}, {.views = false}));
  const Inspection page = Page(Ref());
  EXPECT_EQ(page.kind, Inspection::Kind::kSet);
  EXPECT_EQ(page.manifest.blob.digest, digest_);
  EXPECT_THAT(page.tags, ElementsAre("v1", "stable"));
  EXPECT_EQ(page.annotations.at(kGroupsKey), "000,001,002");
  EXPECT_EQ(Json::parse(page.config)["descriptor"]["name"], "example/tiny");
  EXPECT_EQ(page.parts[0].role, kManifestRole);
  EXPECT_FALSE(page.signatures);
  EXPECT_EQ(page.nodes.size(), 3u);
  uint64_t files = 0;
  for (const Inspection::Part& part : page.parts) files += part.files;
  EXPECT_EQ(files, Manifest()["layers"].size());
}

TEST_F(InspectTest, ShowsTheSamePageForADistributionDirectory) {
  const Inspection page = Page(Ref());
  const Inspection files = Page({Reference::Kind::kFiles, Path("dist"), "", ""});
  EXPECT_EQ(files.manifest.text, page.manifest.text);
  EXPECT_EQ(files.config, page.config);
  EXPECT_FALSE(files.signatures) << "a directory has no signatures";
}

TEST_F(InspectTest, ANodeHasTheSizeOfItsPull) {
  for (const Inspection::Node& node : Page(Ref()).nodes) {
    const std::string group = GroupText(node.group);
    const auto pulled = PullGroups({node.group}, Ref(), "out-" + group);
    ASSERT_TRUE(pulled) << pulled.error().message;
    EXPECT_EQ(node.bytes, pulled->total_bytes());
    EXPECT_EQ(node.files, pulled->files.size());
    const Inspection view = Page(Ref("v1-g" + group));
    EXPECT_EQ(view.kind, Inspection::Kind::kView);
    ASSERT_EQ(view.nodes.size(), 1u);
    EXPECT_EQ(view.nodes[0].bytes, node.bytes);
    EXPECT_EQ(view.nodes[0].group_bytes, node.group_bytes);
  }
}

TEST_F(InspectTest, ReadsOnlyTheManifestAndTheConfig) {
  const Json manifest = Manifest();
  for (const Json& layer : manifest["layers"]) std::filesystem::remove(BlobPath(layer["digest"]));
  EXPECT_EQ(Page(Ref()).kind, Inspection::Kind::kSet);
  std::filesystem::remove(BlobPath(Manifest()["config"]["digest"]));
  EXPECT_EQ(Inspect(Ref(), {}).error().code, Code::kNotFound);
}

TEST_F(InspectTest, IdentifiesIndexesAndForeignImages) {
  const Json index = AddBlob(R"({"schemaVersion":2,"manifests":[]})");
  EXPECT_EQ(Page(Ref().With("", index["digest"])).kind, Inspection::Kind::kIndex);
  const std::string zeros = "sha256:" + std::string(64, '0');
  const std::string layer = R"({"mediaType":"x","digest":")" + zeros + R"(","size":1})";
  const Json image = AddBlob(R"({"schemaVersion":2,"artifactType":"x/y","config":)" + layer +
                             R"(,"layers":[)" + layer + "]}");
  const Inspection page = Page(Ref().With("", image["digest"]));
  EXPECT_EQ(page.kind, Inspection::Kind::kOther);
  EXPECT_EQ(page.artifact_type, "x/y");
  ASSERT_EQ(page.parts.size(), 1u);
  EXPECT_EQ(page.parts[0].role, "");
}

TEST_F(InspectTest, HostileManifestsAreErrors) {
  Change([](Json& manifest) { manifest["annotations"]["org.moepack.groups"] = "000,-1"; });
  const auto found = Inspect(Ref(), {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kCorrupt);
  EXPECT_THAT(found.error().message, testing::HasSubstr("expected groups, found \"-1\""));
  SetManifest("[]");
  EXPECT_EQ(Inspect(Ref(), {}).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack::registry
