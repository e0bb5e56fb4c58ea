#include "tools/reports/node_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack::cli {
namespace {

using testing::HasSubstr;

// Layer 0 has four experts, layer 1 three; two groups, expert 0 of layer 0 is on both nodes.
Plan SmallPlan() {
  Plan plan;
  plan.layers = {{0, 4}, {1, 3}};
  plan.groups.resize(2);
  plan.groups[0].owned = {{0, {0, 1}}, {1, {0, 1}}};
  plan.groups[1].owned = {{0, {2, 3}}, {1, {2}}};
  plan.groups[1].fill = {{1, {0}}};
  plan.overlays = {{"v1", "", {{0, {0}}}, {}}};
  return plan;
}

TEST(NodeReport, CountsExpertsPerLayerAndMergesTheOverlay) {
  const NodeExperts first = CountNodeExperts(SmallPlan(), 0);
  EXPECT_EQ(first.owned.most, 2u);
  EXPECT_EQ(first.eligible.most, 2u);  // expert 0 is not counted twice
  const NodeExperts second = CountNodeExperts(SmallPlan(), 1);
  EXPECT_EQ(second.owned.least, 1u);
  EXPECT_EQ(second.owned.most, 2u);
  EXPECT_EQ(second.fill.least, 0u);
  EXPECT_EQ(second.fill.most, 1u);
  EXPECT_EQ(second.eligible.least, 2u);
  EXPECT_EQ(second.eligible.most, 3u);
}

TEST(NodeReport, SumsTheFilesOfEveryPart) {
  std::vector<OutputFile> files(5);
  const Role roles[] = {Role::kTrunk, Role::kTrunk, Role::kGroup, Role::kOverlay, Role::kRemainder};
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].role = roles[i];
    files[i].size = 10 + i;
  }
  files[2].group = 1;
  files[3].path = "overlays/v1/experts.safetensors";
  const PartBytes bytes = BytesOfFiles(files, SmallPlan());
  EXPECT_EQ(bytes.trunk, 21u);
  EXPECT_EQ(bytes.overlay, 13u);
  EXPECT_EQ(bytes.remainder, 14u);
  EXPECT_EQ(bytes.Node(0), 34u);
  EXPECT_EQ(bytes.Node(1), 46u);
}

TEST(NodeReport, TheTableShowsRangesAndDashesForUnknownSizes) {
  EXPECT_THAT(NodeTable(SmallPlan(), nullptr),
              HasSubstr("   1    1-2   0-1      0-1       2-3      -      -        -      -\n"));
}

TEST(NodeReport, JsonHasBytesOnlyWhenTheyAreKnown) {
  const PartBytes bytes{1, 2, 0, {10, 20}};
  const auto known = NodesToJson(SmallPlan(), &bytes);
  EXPECT_EQ(known[1]["bytes"]["total"], 23);
  EXPECT_EQ(known[1]["eligible"]["least"], 2);
  EXPECT_FALSE(NodesToJson(SmallPlan(), nullptr)[0].contains("bytes"));
}

}  // namespace
}  // namespace moepack::cli
