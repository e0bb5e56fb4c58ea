#include "manifest/document/use_overlay.h"

#include <gtest/gtest.h>

#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

// The sample with a second version besides the first.
Manifest TwoVersions() {
  Manifest manifest = sample::Make().manifest;
  OverlayPlan next{"v2", "generalists-1", {{1, {5}}, {2, {5}}}, {}};
  manifest.plan.overlays.push_back(std::move(next));
  manifest.bundles.push_back(manifest.bundles.back());
  manifest.bundles.back().file = "overlays/v2/experts.safetensors";
  manifest.versions = ComputeVersions(manifest.versions.model, manifest.plan);
  return manifest;
}

size_t OverlayFiles(const Manifest& manifest) {
  return static_cast<size_t>(
      std::count_if(manifest.bundles.begin(), manifest.bundles.end(),
                    [](const auto& bundle) { return bundle.role == Role::kOverlay; }));
}

TEST(UseOverlay, TheLastOverlayIsTheCurrentOne) {
  const Manifest whole = TwoVersions();
  Manifest manifest = whole;
  ASSERT_TRUE(UseOverlay("d", "", manifest));
  ASSERT_EQ(manifest.plan.overlays.size(), 1u);
  EXPECT_EQ(manifest.plan.overlays[0].version, "v2");
  EXPECT_EQ(OverlayFiles(manifest), 1u);
  EXPECT_EQ(manifest.bundles.back().file, "overlays/v2/experts.safetensors");
  EXPECT_EQ(manifest.versions.replica, whole.versions.replica);
}

TEST(UseOverlay, AnOlderOverlayIsAsItWasWithoutTheOthers) {
  Manifest manifest = TwoVersions();
  ASSERT_TRUE(UseOverlay("d", "generalists-1", manifest));
  EXPECT_EQ(manifest.plan.overlays, sample::Make().manifest.plan.overlays);
  EXPECT_EQ(manifest.versions.replica, sample::Make().manifest.versions.replica);
  EXPECT_EQ(manifest.versions.shard, sample::Make().manifest.versions.shard);
  EXPECT_EQ(OverlayFiles(manifest), 1u);
}

TEST(UseOverlay, RefusesAMissingOverlayAndListsTheExistingOnes) {
  Manifest manifest = TwoVersions();
  const Status used = UseOverlay("d", "v9", manifest);
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, Code::kNotFound);
  EXPECT_EQ(used.error().message,
            "d: overlay \"v9\": expected in the manifest, found only \"generalists-1\", \"v2\"");
  UseNoOverlay(manifest);
  EXPECT_EQ(UseOverlay("d", "v2", manifest).error().message,
            "d: overlay \"v2\": expected in the manifest, found none");
  EXPECT_TRUE(UseOverlay("d", "", manifest));
}

TEST(UseOverlay, UsingNoOverlayLeavesOnlyTheGroups) {
  Manifest manifest = TwoVersions();
  UseNoOverlay(manifest);
  EXPECT_TRUE(manifest.plan.overlays.empty());
  EXPECT_EQ(OverlayFiles(manifest), 0u);
  EXPECT_EQ(manifest.versions.replica, "");
}

}  // namespace
}  // namespace moepack::manifest
