#include <gmock/gmock.h>

#include "tests/tools/terminal_moepack.h"

namespace moepack::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CheckCommand : public testing::Test {
 protected:
  CheckCommand() {
    EXPECT_EQ(workspace_
                  .Moepack("build fixtures/tiny-moe --groups 3 --overlay-file "
                           "fixtures/tiny-overlay.json -o out --no-verify")
                  .status,
              0);
  }

  // Changes one value of an expert of group 2; it is not verified afterwards.
  void Damage() {
    const auto manifest = nlohmann::json::parse(ReadFile(workspace_ / "out/distribution.json"));
    for (const auto& bundle : manifest["bundles"]) {
      if (bundle["file"] != "groups/002/experts.safetensors") continue;
      const auto path = workspace_ / "out/groups/002/experts.safetensors";
      std::string bytes = ReadFile(path);
      bytes.replace(bundle["tensors"].back()["offset"].get<size_t>(), 2, "\x40\x42");
      WriteAll(path, bytes);
    }
  }

  Workspace workspace_;
};

TEST_F(CheckCommand, PassesForEveryGroupWithAndWithoutTheOverlay) {
  const ToolRun run = workspace_.Moepack("check --threads 1 out");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("ok       group 0 with overlay "), HasSubstr("ok       group 1  "),
                    HasSubstr("ok       group 2 with overlay, assembled"),
                    HasSubstr("32 positions, same bits"),
                    HasSubstr("check passed: 9 nodes beside the masked model")));
}

TEST_F(CheckCommand, JsonHasEveryNode) {
  const auto report = workspace_.Json("check --threads 1 out --against fixtures/tiny-moe --json");
  EXPECT_EQ(report["passed"], true);
  EXPECT_EQ(report["against"], "fixtures/tiny-moe");
  EXPECT_EQ(report["tolerance"], 0.0);
  EXPECT_EQ(report["tokens"].size(), 32u);
  ASSERT_EQ(report["nodes"].size(), 9u);
  for (const auto& node : report["nodes"]) {
    EXPECT_EQ(node["status"], "passed");
    EXPECT_EQ(node["same_bits"], true);
    EXPECT_EQ(node["first_position"], nullptr);
  }
  EXPECT_EQ(report["nodes"][2]["kind"], "assembled");
}

TEST_F(CheckCommand, ADamagedGroupIsNamedAndFailsTheRun) {
  Damage();
  const ToolRun run = workspace_.Moepack(
      "check --threads 1 out --against fixtures/tiny-moe --no-verify --no-assembled");
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_THAT(
      run.out,
      AllOf(HasSubstr("ok       group 1 with overlay"), HasSubstr("FAILED   group 2 with overlay"),
            HasSubstr("the logits part at position"), HasSubstr("first in layer 2"),
            HasSubstr("outputs other values"), HasSubstr("check failed: 2 of 6 nodes")));
}

TEST_F(CheckCommand, FailsAtTheDigestUnlessToldNotToVerify) {
  Damage();
  const ToolRun run = workspace_.Moepack("check --threads 1 out");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.err, HasSubstr("groups/002/experts.safetensors"));
}

TEST_F(CheckCommand, FailsForDamageThatAssemblingFinds) {
  Damage();
  const ToolRun run = workspace_.Moepack("check --threads 1 out --group 2 --no-verify");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.err, HasSubstr("xxh3-128"));
}

TEST_F(CheckCommand, FormatJunitHasATestCasePerNode) {
  const ToolRun run = workspace_.Moepack("check --threads 1 out --no-assembled --format junit");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(
      run.out,
      AllOf(HasSubstr("<testsuite name=\"moepack check out\" tests=\"6\" failures=\"0\">"),
            HasSubstr("<testcase classname=\"moepack.check\" name=\"group 1 with overlay\"/>"),
            Not(HasSubstr("ok  "))));
}

TEST_F(CheckCommand, FormatsForContinuousIntegrationNameTheNodeThatFails) {
  Damage();
  const std::string command =
      "check --threads 1 out --against fixtures/tiny-moe --no-verify --no-assembled --format ";
  const ToolRun github = workspace_.Moepack(command + "github");
  EXPECT_EQ(github.status, 6) << github.err;
  EXPECT_THAT(github.out,
              AllOf(HasSubstr("::error file=out/distribution.json,title=moepack check%3A group 2 "
                              "with overlay::the logits part at position "),
                    HasSubstr("\nout: check failed: 2 of 6 nodes do not give")));
  const ToolRun junit = workspace_.Moepack(command + "junit");
  EXPECT_EQ(junit.status, 6);
  EXPECT_THAT(junit.out,
              AllOf(HasSubstr("failures=\"2\""),
                    HasSubstr("<failure type=\"group 2 with overlay\" message=\"the logits part")));
}

TEST_F(CheckCommand, HelpMentionsOnlyADistributionAsInput) {
  const ToolRun help = workspace_.Moepack("help check");
  EXPECT_THAT(help.out, AllOf(HasSubstr("The directory of a distribution."),
                              Not(HasSubstr("safetensors checkpoint")), Not(HasSubstr("GGUF"))));
}

TEST_F(CheckCommand, ShowsNoProgressInAPipe) {
  const ToolRun run = workspace_.Moepack("check --threads 1 out --group 0 --no-assembled");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
}

TEST_F(CheckCommand, CountsTokensOnATerminal) {
  const ToolRun run = OnATerminal(workspace_, "check --threads 1 out --group 0");
  EXPECT_EQ(run.status, 0) << run.out;
  EXPECT_THAT(
      run.out,
      AllOf(testing::ContainsRegex("loading +[0-9]+%  [0-9.]+ k?B of "),
            testing::ContainsRegex("checking +[0-9]+%  [0-9]+ of 192 tokens  [0-9.,]+ tokens/s")));
}

TEST_F(CheckCommand, FailsWhenNoNodeCanRun) {
  const ToolRun built = workspace_.Moepack(
      "build fixtures/tiny-moe --groups 16 --overlay-file fixtures/tiny-overlay.json --no-uniform "
      "-o small --no-verify");
  ASSERT_EQ(built.status, 0) << built.err;
  const ToolRun run = workspace_.Moepack("check --threads 1 small --no-overlay");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.err, HasSubstr("expected at least one that can run, found none"));
}

TEST_F(CheckCommand, MentionsDroppedExperts) {
  WriteAll(workspace_ / "parts.json", R"({"groups": [{"*": "0-3"}, {"*": "4-8"}]})");
  const ToolRun built = workspace_.Moepack(
      "build fixtures/tiny-moe --partition explicit:parts.json -o few --no-verify --no-uniform");
  ASSERT_EQ(built.status, 0) << built.err;
  const ToolRun run = workspace_.Moepack("check --threads 1 few --no-assembled");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("note: 21 experts are on no node"));
}

TEST_F(CheckCommand, ChecksASingleGroup) {
  const auto report = workspace_.Json(
      "check --threads 1 out --group 1 --tokens 3,4,5 --no-assembled --no-overlay --json");
  ASSERT_EQ(report["nodes"].size(), 1u);
  EXPECT_EQ(report["nodes"][0]["group"], 1);
  EXPECT_EQ(report["nodes"][0]["overlay"], false);
  EXPECT_EQ(report["nodes"][0]["positions"], 3);
}

TEST_F(CheckCommand, ErrorsHaveTheirExitStatus) {
  const auto status = [&](const std::string& arguments, const char* text) {
    const ToolRun run = workspace_.Moepack("check " + arguments);
    EXPECT_THAT(run.err, HasSubstr(text));
    return run.status;
  };
  EXPECT_EQ(status("fixtures/tiny-moe", "expected a distribution"), 2);
  EXPECT_EQ(status("out --group 9", "group: expected 0 to 2, found 9"), 2);
  EXPECT_EQ(status("out --tokens 1,b", "found \"b\""), 2);
  EXPECT_EQ(status("out --tolerance -1", "expected a number, 0 or more"), 2);
  EXPECT_EQ(status("nowhere", "nowhere"), 5);
  EXPECT_EQ(status("out --device 4", "expected 0, found 4"), 7);
}

}  // namespace
}  // namespace moepack::cli
