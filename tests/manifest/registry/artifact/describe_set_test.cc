#include "manifest/registry/artifact/describe_set.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "manifest/registry/artifact/reference.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::registry {
namespace {

using manifest::Manifest;
using testing::ElementsAre;
using testing::HasSubstr;

const SmallFiles kFiles = {{"sha256:" + std::string(64, 'd'), 10},
                           SmallFile{"sha256:" + std::string(64, 'e'), 20}};

// Three groups, of which group 1 has two files, an overlay, and two small files.
Manifest ThreeGroups() {
  Manifest made;
  made.model.id = "example/tiny";
  made.model.revision = "abc";
  made.model.family = "mixtral";
  made.model.parameters_total = 22190000;
  made.versions = {"m", "s", "r"};
  made.plan.layers = {{0, 8}};
  made.plan.groups.resize(3);
  for (uint32_t group = 0; group < 3; ++group) made.plan.groups[group].owned[0] = {group};
  made.plan.overlays = {{"v2", "", {{0, {4}}}, {}}};
  const auto add = [&](Role role, std::optional<uint32_t> group, const char* file, char digit) {
    made.bundles.push_back({{role, group, file, "safetensors", 7, std::string(64, digit), {}}, {}});
  };
  add(Role::kGroup, 1, "groups/001/a", '3');
  add(Role::kTrunk, std::nullopt, "trunk/t", '1');
  add(Role::kGroup, 0, "groups/000/a", '2');
  add(Role::kGroup, 1, "groups/001/b", '4');
  add(Role::kGroup, 2, "groups/002/a", '5');
  add(Role::kOverlay, std::nullopt, "overlays/v2/o", '6');
  made.assets = {{"assets/config.json", 3, std::string(64, '7')},
                 {"assets/LICENSE", 3, std::string(64, '8')}};
  return made;
}

std::vector<std::string> Paths(const OciManifest& oci) {
  std::vector<std::string> paths;
  for (const BlobRecord& layer : oci.layers) paths.push_back(layer.path());
  return paths;
}

const BlobRecord& LayerOf(const OciManifest& oci, std::string_view path) {
  for (const BlobRecord& layer : oci.layers) {
    if (layer.path() == path) return layer;
  }
  return oci.layers.at(oci.layers.size());  // throws: the test names a wrong file
}

TEST(DescribeSet, OrdersLayersByRoleGroupAndPart) {
  EXPECT_THAT(Paths(DescribeSet(ThreeGroups(), kFiles)),
              ElementsAre("distribution.json", "assets/config.json", "assets/LICENSE", "trunk/t",
                          "groups/000/a", "groups/001/a", "groups/001/b", "groups/002/a",
                          "overlays/v2/o", "README.md"));
  EXPECT_THAT(Paths(DescribeView(ThreeGroups(), kFiles, 1, "sha256:x")),
              ElementsAre("distribution.json", "assets/config.json", "assets/LICENSE", "trunk/t",
                          "groups/001/a", "groups/001/b", "overlays/v2/o", "README.md"));
}

TEST(DescribeSet, AnnotatesLayersWithTheirContents) {
  const OciManifest oci = DescribeSet(ThreeGroups(), kFiles);
  const BlobRecord& part = LayerOf(oci, "groups/001/b");
  EXPECT_EQ(part.media_type, kWeightType);
  EXPECT_EQ(part.digest, "sha256:" + std::string(64, '4'));
  EXPECT_EQ(part.size, 7u);
  EXPECT_EQ(part.annotations, (Annotations{{kPathKey, "groups/001/b"},
                                           {kTitleKey, "groups/001/b"},
                                           {kRoleKey, "group"},
                                           {kGroupKey, "001"},
                                           {kPartKey, "2/2"}}));
  const Annotations overlay = LayerOf(oci, "overlays/v2/o").annotations;
  EXPECT_EQ(AnnotationOf(overlay, kOverlayVersionKey), "v2");
  EXPECT_EQ(AnnotationOf(overlay, kOverlayGroupsKey), "000,001,002");
  EXPECT_EQ(LayerOf(oci, "distribution.json").media_type, kSmallFileType);
  EXPECT_EQ(LayerOf(oci, "assets/config.json").media_type, kSmallFileType);
  EXPECT_EQ(LayerOf(oci, "assets/LICENSE").media_type, kDocType);
  EXPECT_EQ(LayerOf(oci, "README.md").media_type, kDocType);
}

TEST(DescribeSet, AnnotatesManifestsWithTheirContents) {
  const Annotations set = DescribeSet(ThreeGroups(), kFiles).annotations;
  EXPECT_EQ(AnnotationOf(set, kGroupsKey), "000,001,002");
  EXPECT_EQ(AnnotationOf(set, kOverlayVersionKey), "v2");
  EXPECT_EQ(AnnotationOf(set, kDistributionKey), kFiles.distribution.digest);
  EXPECT_EQ(AnnotationOf(set, "org.opencontainers.image.version"), "m-s-r");
  EXPECT_EQ(AnnotationOf(set, "org.opencontainers.image.revision"), "abc");
  EXPECT_FALSE(set.contains("org.opencontainers.image.created"));
  EXPECT_FALSE(set.contains(kViewOfKey));
  const Annotations view = DescribeView(ThreeGroups(), kFiles, 2, "sha256:x").annotations;
  EXPECT_EQ(AnnotationOf(view, kGroupsKey), "002");
  EXPECT_EQ(AnnotationOf(view, kViewGroupKey), "002");
  EXPECT_EQ(AnnotationOf(view, kViewOfKey), "sha256:x");
  EXPECT_EQ(AnnotationOf(view, kSetIdKey), AnnotationOf(set, kSetIdKey));
}

TEST(DescribeSet, TheSetIdDependsOnTrunkAndGroups) {
  const auto id = [](const Manifest& made) {
    return AnnotationOf(DescribeSet(made, kFiles).annotations, kSetIdKey);
  };
  Manifest other = ThreeGroups();
  other.plan.overlays[0].version = "v3";
  other.bundles.back().file = "overlays/v3/o";
  other.bundles.back().sha256 = std::string(64, 'f');
  EXPECT_EQ(id(other), id(ThreeGroups()));
  other.bundles[0].sha256 = std::string(64, 'f');
  EXPECT_NE(id(other), id(ThreeGroups()));
}

TEST(DescribeSet, AGroupWithoutFilesIsAbsent) {
  Manifest made = ThreeGroups();
  std::erase_if(made.bundles, [](const auto& bundle) { return bundle.group == 1; });
  EXPECT_THAT(GroupsThere(made), ElementsAre(0, 2));
  made.plan.groups[1].owned.clear();  // it has no experts, and so needs no file
  EXPECT_THAT(GroupsThere(made), ElementsAre(0, 1, 2));
}

TEST(DescribeSet, TheConfigHasOnlyKeysOfTheSchema) {
  const Manifest made = ThreeGroups();
  const OciManifest oci = DescribeSet(made, kFiles);
  const std::string text = ConfigText(made, oci.layers);
  const auto config = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(config["descriptor"].dump(),
            R"({"family":"mixtral","name":"example/tiny","version":"m-s-r","revision":"abc"})");
  EXPECT_EQ(config["config"].dump(), R"({"format":"safetensors","paramSize":"22m"})");
  EXPECT_EQ(config["modelfs"]["type"], "layers");
  EXPECT_EQ(config["modelfs"]["diffIds"].size(), oci.layers.size());
  EXPECT_EQ(config["modelfs"]["diffIds"][3], oci.layers[3].digest);
  EXPECT_TRUE(CheckConfig("it", text, oci.layers));
}

TEST(DescribeSet, RefusesAConfigThatListsOtherLayers) {
  const Manifest made = ThreeGroups();
  const std::vector<BlobRecord> layers = DescribeSet(made, kFiles).layers;
  const std::string text = ConfigText(made, layers);
  std::vector<BlobRecord> other = layers;
  other[1].digest = layers[2].digest;
  const Status swapped = CheckConfig("it", text, other);
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().code, Code::kCorrupt);
  EXPECT_THAT(swapped.error().message, HasSubstr("it: modelfs: diffIds: expected sha256:8888"));
  other.pop_back();
  EXPECT_THAT(CheckConfig("it", text, other).error().message,
              HasSubstr("expected one for each of 9 layers, found 10"));
  EXPECT_FALSE(CheckConfig("it", "[]", layers));
}

TEST(DescribeSet, UsesTheTimeOfTheDistribution) {
  Manifest made = ThreeGroups();
  EXPECT_EQ(CreatedText(made), "");
  made.created = 1700000000;
  EXPECT_EQ(CreatedText(made), "2023-11-14T22:13:20Z");
  EXPECT_EQ(AnnotationOf(DescribeSet(made, kFiles).annotations, "org.opencontainers.image.created"),
            "2023-11-14T22:13:20Z");
}

TEST(WithViews, OnlySetsHaveThem) {
  OciManifest oci;
  oci.config = {kConfigType, DigestOf(std::string(64, '0')), 2};
  oci.annotations = {{kSchemaKey, kSetSchema}};
  const std::string set = WriteOciManifest(oci);
  EXPECT_TRUE(*WithViews("it", set, true));
  EXPECT_FALSE(*WithViews("it", set, false));
  oci.annotations[kViewOfKey] = DigestOf(std::string(64, '1'));
  const std::string view = WriteOciManifest(oci);
  const std::string image = R"({"schemaVersion":2})";
  for (const std::string& text : {view, image}) {
    EXPECT_FALSE(*WithViews("it", text, true));
    const auto refused = WithViews("it", text, false);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().message, "--no-views has no effect: it is not a set");
  }
}

TEST(WithViews, ADamagedSetMayStillBeHandledAlone) {
  EXPECT_FALSE(*WithViews("it", "{", false));
  EXPECT_FALSE(*WithViews("it", "{", true));
}

}  // namespace
}  // namespace moepack::registry
