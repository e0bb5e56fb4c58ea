#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace cli {
namespace {

using testing::HasSubstr;

class Assemble : public testing::Test {
 protected:
  Assemble() {
    EXPECT_EQ(workspace_
                  .Moepack("build fixtures/tiny-moe --groups 3 --overlay-file "
                           "fixtures/tiny-overlay.json -o out --no-verify")
                  .status,
              0);
  }
  Workspace workspace_;
};

TEST_F(Assemble, MakesACheckpointThatOpensAsAModelOfItsOwn) {
  const ToolRun run = workspace_.Moepack("assemble out --group 1 -o node");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("group 1 with 7 experts per layer"));
  const auto summary = workspace_.Json("list-tensors node --summary --json");
  EXPECT_EQ(summary["experts"], 7);
  EXPECT_EQ(summary["top_k"], 2);
  EXPECT_EQ(nlohmann::json::parse(ReadAll(workspace_ / "node/config.json"))["num_experts"], 7);
}

TEST_F(Assemble, ADryRunWritesNothingAndPredictsEveryFile) {
  const std::string before = workspace_.Listing();
  const auto dry = workspace_.Json("assemble out --group 0 -o node --dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  const auto written = workspace_.Json("assemble out --group 0 -o node --json");
  EXPECT_EQ(written["files"], dry["files"]);
  for (const auto& file : dry["files"]) {
    const auto path = workspace_ / "node" / file["file"].get<std::string>();
    EXPECT_EQ(std::filesystem::file_size(path), file["bytes"]) << path;
  }
}

TEST_F(Assemble, AGroupThatIsNotThereIsAUsageError) {
  const ToolRun run = workspace_.Moepack("assemble out --group 3 -o node");
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("expected 0 to 2, found 3"));
}

TEST_F(Assemble, AnUnknownOptionIsNamedBeforeAMissingOne) {
  const ToolRun run = workspace_.Moepack("assemble out --groups 1 -o node");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("unknown option \"--groups\"\nhint: did you mean --group?"));
}

TEST_F(Assemble, AnExistingOutputIsKeptUnlessForced) {
  WriteAll(workspace_ / "node/mine.txt", "mine");
  EXPECT_EQ(workspace_.Moepack("assemble out --group 0 -o node").status, 2);
  EXPECT_EQ(ReadAll(workspace_ / "node/mine.txt"), "mine");
}

}  // namespace
}  // namespace cli
