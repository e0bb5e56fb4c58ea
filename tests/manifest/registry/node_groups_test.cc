#include "manifest/registry/node_groups.h"

#include <gmock/gmock.h>

#include "manifest/registry/artifact/describe_set.h"

namespace moepack::registry {
namespace {

using testing::ElementsAre;

OciManifest Sample(const std::string& groups) {
  OciManifest oci;
  for (const char* group : {"000", "002"})
    oci.layers.push_back({kWeightType, group, 5, {{kGroupKey, group}}});
  oci.layers.push_back({kWeightType, "trunk", 7, {}});
  oci.annotations[kGroupsKey] = groups;
  return oci;
}

TEST(NodeGroups, AreTheNamedGroupsThatHaveLayers) {
  EXPECT_THAT(*GroupsOf("it", Sample("002,000,002")), ElementsAre(0, 2));
  EXPECT_THAT(*GroupsOf("it", Sample("001,002")), ElementsAre(2));
  EXPECT_TRUE(GroupsOf("it", Sample(""))->empty());
}

TEST(NodeGroups, AHostileListIsRefused) {
  for (const char* groups : {"0", "-1", "000,", "x", "99999999999", "000;002"}) {
    const auto found = GroupsOf("it", Sample(groups));
    ASSERT_FALSE(found) << groups;
    EXPECT_EQ(found.error().code, Code::kCorrupt);
    EXPECT_THAT(found.error().message, testing::StartsWith("it: org.moepack.groups: expected"));
  }
}

TEST(NodeGroups, CountNewLayersOncePerDigest) {
  const std::vector<BlobRecord> layers = Sample("").layers;
  std::vector<BlobRecord> twice = layers;
  twice.insert(twice.end(), layers.begin(), layers.end());
  EXPECT_EQ(BytesOf(NewLayers({}, twice)), 17u);
  EXPECT_EQ(BytesOf(NewLayers({layers[2]}, twice)), 10u);
  EXPECT_TRUE(NewLayers(layers, twice).empty());
}

}  // namespace
}  // namespace moepack::registry
