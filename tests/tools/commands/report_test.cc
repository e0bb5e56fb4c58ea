#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;

class ReportCommand : public ::testing::Test {
 protected:
  ReportCommand() {
    const ToolRun run = workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out");
    EXPECT_EQ(run.status, 0) << run.err;
  }
  Workspace workspace_;
};

TEST_F(ReportCommand, WritesOnePageFromAllItsInputs) {
  ASSERT_EQ(workspace_
                .Moepack("eval out --text fixtures/texts/header.txt --generate 0 --json "
                         ">evaluation.json")
                .status,
            0);
  const std::string line = "report out fixtures/statistics/profile.json evaluation.json";
  const ToolRun run = workspace_.Moepack(line + " -o report.html");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("wrote report.html ("));
  EXPECT_THAT(run.out, HasSubstr("qwen3-moe on 2 nodes, from 3 documents\n"));
  const std::string page = ReadFile(workspace_ / "report.html");
  for (const char* id : {"bytes", "routing", "capture", "damage", "placement", "overlap"})
    EXPECT_THAT(page, HasSubstr("<section id=\"" + std::string(id) + "\">"));
  ASSERT_EQ(workspace_.Moepack(line + " -o again.html").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "again.html"), page);
}

TEST_F(ReportCommand, RefusesToReplaceAFileOrToWriteIntoTheDistribution) {
  WriteAll(workspace_ / "report.html", "mine");
  ToolRun run = workspace_.Moepack("report out");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(ReadFile(workspace_ / "report.html"), "mine");
  EXPECT_EQ(workspace_.Moepack("report out --force").status, 0);
  run = workspace_.Moepack("report out -o out/report.html");
  EXPECT_EQ(run.status, 2);
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "out/report.html"));
}

TEST_F(ReportCommand, NamesAForeignInput) {
  const ToolRun run = workspace_.Moepack("report out fixtures/tiny-moe/config.json");
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr("fixtures/tiny-moe/config.json: expected a document of moepack"));
  EXPECT_THAT(run.err, HasSubstr("hint: report reads distributions"));
}

// A GGUF may be an importance matrix.
TEST_F(ReportCommand, SaysWhatItReadsInsteadOfAModel) {
  ASSERT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q4_K_M -o model.gguf").status,
            0);
  const ToolRun run = workspace_.Moepack("report model.gguf");
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr("general.type: expected \"imatrix\", found \"model\""));
  EXPECT_THAT(run.err, HasSubstr("of a calibrated GGUF, name the store: FILE.gguf.calibrated"));
}

}  // namespace
}  // namespace moepack::cli
