#include "manifest/document/whole_model.h"

#include <gtest/gtest.h>

#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

TEST(WholeModel, IsHeldByAllGroupsTogether) {
  EXPECT_TRUE(HoldsWholeModel(sample::Make().manifest));
}

TEST(WholeModel, IsNotHeldIfExpertsAreOnNoNode) {
  Plan plan = sample::MakePlan();
  plan.groups[2].owned[2] = {4};
  plan.remainder[2] = {5};
  EXPECT_FALSE(HoldsWholeModel(sample::Make(plan).manifest));
  // Other groups may have it, too.
  plan.remainder.clear();
  plan.groups[0].owned[2].push_back(5);
  EXPECT_TRUE(HoldsWholeModel(sample::Make(plan).manifest));
}

TEST(WholeModel, IsNotHeldIfAGroupWasLeftOut) {
  sample::Distribution distribution = sample::Make();
  distribution.manifest.complete = false;
  distribution.Remove(sample::kGroup1);
  EXPECT_FALSE(HoldsWholeModel(distribution.manifest));
}

TEST(WholeModel, IsNotHeldByRefittedGroups) {
  Manifest manifest = sample::Make().manifest;
  manifest.refit = std::make_shared<const RefitRecord>();
  EXPECT_FALSE(HoldsWholeModel(manifest));
}

}  // namespace
}  // namespace moepack::manifest
