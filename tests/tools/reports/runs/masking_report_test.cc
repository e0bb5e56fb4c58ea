#include "tools/reports/runs/masking_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack::cli {
namespace {

using runtime::CheckedNode;
using testing::HasSubstr;

CheckedNode Passed() {
  CheckedNode node{2, CheckedNode::Kind::kBundles, true};
  node.findings.positions = 32;
  node.eligible = 21;
  node.used = 20;
  return node;
}

CheckedNode Failed() {
  CheckedNode node = Passed();
  node.findings.failure = 3;
  node.findings.worst = {false, 2, 0.5};
  node.where = runtime::RoutingDifference{3, 1, "expert 8 outputs other values"};
  return node;
}

CheckedNode Skipped() {
  CheckedNode node{0, CheckedNode::Kind::kAssembled, false};
  node.skipped = "too small";
  return node;
}

TEST(MaskingReport, ANodeIsOneLine) {
  EXPECT_EQ(CheckedNodeText(Passed()),
            "ok       group 2 with overlay              32 positions, same bits; 20 of 21 experts "
            "took part\n");
  EXPECT_EQ(CheckedNodeText(Skipped()), "skipped  group 0, assembled                too small\n");
}

TEST(MaskingReport, AFailureSaysWhere) {
  const std::string text = CheckedNodeText(Failed());
  EXPECT_THAT(text, HasSubstr("FAILED   group 2 with overlay"));
  EXPECT_THAT(text, HasSubstr("logits differ by 5.00e-01 of the largest"));
  EXPECT_THAT(text, HasSubstr("\n  the logits part at position 3; first in layer 1, position 3: "
                              "expert 8 outputs other values\n"));
  CheckedNode unplaced = Failed();
  unplaced.where.reset();
  EXPECT_THAT(CheckedNodeText(unplaced), HasSubstr("\n  the logits part at position 3\n"));
}

TEST(MaskingReport, TheSummaryCountsTheNodesThatRan) {
  runtime::CheckReport report;
  report.nodes = {Passed(), Skipped()};
  EXPECT_EQ(CheckSummary(report),
            "check passed: 1 node beside the masked model (the same bits), 1 skipped\n");
  report.nodes.push_back(Failed());
  report.tolerance = 1e-4;
  EXPECT_EQ(CheckSummary(report),
            "check failed: 1 of 2 nodes do not give the logits of the masked model (within "
            "1.00e-04), 1 skipped\n");
}

TEST(MaskingReport, CiReportsHaveATestCasePerNode) {
  runtime::CheckReport report;
  report.nodes = {Passed(), Skipped(), Failed()};
  report.nodes[2].group = 1;
  const CiReport ci = CheckCi("out", report);
  EXPECT_EQ(GithubText(ci),
            "::notice file=out/distribution.json,title=moepack check%3A group 0%2C assembled::"
            "skipped: too small\n"
            "::error file=out/distribution.json,title=moepack check%3A group 1 with overlay::the "
            "logits part at position 3; first in layer 1, position 3: expert 8 outputs other "
            "values\n"
            "out: check failed: 1 of 2 nodes do not give the logits of the masked model (the same "
            "bits), 1 skipped\n");
  EXPECT_THAT(JunitText(ci), HasSubstr("tests=\"3\" failures=\"1\""));
}

TEST(MaskingReport, JsonHasAStatusForEveryNode) {
  runtime::CheckReport report;
  report.nodes = {Passed(), Skipped(), Failed()};
  const moepack::Json json = CheckJson("out", "", report);
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["against"], nullptr);
  EXPECT_EQ(json["nodes"][0]["status"], "passed");
  EXPECT_EQ(json["nodes"][1]["status"], "skipped");
  EXPECT_EQ(json["nodes"][1]["reason"], "too small");
  EXPECT_EQ(json["nodes"][2]["status"], "failed");
  EXPECT_EQ(json["nodes"][2]["first_position"], 3);
  EXPECT_EQ(json["nodes"][2]["layer"], 1);
  EXPECT_EQ(json["nodes"][0]["layer"], nullptr);
}

}  // namespace
}  // namespace moepack::cli
