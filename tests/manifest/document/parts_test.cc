#include "manifest/document/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::manifest {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two groups of one layer with four experts, the second without any, and an overlay.
Manifest PartsSample() {
  Manifest manifest;
  manifest.complete = false;
  manifest.plan.layers = {{0, 4}};
  manifest.plan.groups.resize(2);
  manifest.plan.groups[0].owned[0] = {0, 1, 2, 3};
  manifest.plan.overlays = {{"v1", "", {{0, {1}}}, {}}};
  return manifest;
}

BundleRecord Bundle(Role role, std::optional<uint32_t> group = std::nullopt) {
  BundleRecord record;
  record.role = role;
  record.group = group;
  if (role == Role::kOverlay) record.file = "overlays/v1/experts.safetensors";
  record.format = "safetensors";
  return record;
}

TEST(Parts, AbsentPartsAreNamedAsOnTheCommandLine) {
  Manifest manifest = PartsSample();
  EXPECT_THAT(AbsentWords(manifest), ElementsAre("trunk", "group:0", "overlay", "assets"));
  manifest.recipe.name = "Q8_0";
  EXPECT_THAT(AbsentWords(manifest), ElementsAre("trunk", "group:0", "overlay", "assets"))
      << "head and routers are made with the trunk";
  manifest.recipe.name = "";
  manifest.bundles = {Bundle(Role::kTrunk), Bundle(Role::kOverlay)};
  EXPECT_THAT(AbsentWords(manifest), ElementsAre("group:0", "assets"));
}

TEST(Parts, ADistributionIsCompleteWithoutEmptyGroupsAndTheRemainder) {
  Manifest manifest = PartsSample();
  manifest.bundles = {Bundle(Role::kTrunk), Bundle(Role::kGroup, 0), Bundle(Role::kOverlay)};
  SetComplete(true, manifest);
  EXPECT_FALSE(manifest.complete);
  EXPECT_THAT(AbsentWords(manifest), ElementsAre("assets"));
  manifest.assets = {{"assets/config.json", 2, ""}};
  SetComplete(true, manifest);
  EXPECT_TRUE(manifest.complete);
  EXPECT_THAT(AbsentWords(manifest), IsEmpty());
}

TEST(Parts, ASourceWithoutAssetsIsRememberedUntilThePartsAreComplete) {
  Manifest manifest = PartsSample();
  manifest.bundles = {Bundle(Role::kTrunk), Bundle(Role::kOverlay)};
  SetComplete(false, manifest);
  EXPECT_FALSE(manifest.complete);
  EXPECT_TRUE(manifest.without_assets);
  EXPECT_THAT(AbsentWords(manifest), ElementsAre("group:0"));
  manifest.bundles.push_back(Bundle(Role::kGroup, 0));
  SetComplete(false, manifest);
  EXPECT_TRUE(manifest.complete);
  EXPECT_FALSE(manifest.without_assets);
}

}  // namespace
}  // namespace moepack::manifest
