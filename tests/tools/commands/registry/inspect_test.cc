#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class InspectCommand : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --recipe Q8_0 -o out").status,
              0);
    published_ = workspace_.Json("publish out layout:models:v1 --json");
  }
  Workspace workspace_;
  nlohmann::json published_;
};

TEST_F(InspectCommand, ThePageHasModelSizesTagsAndSignatures) {
  const ToolRun run = workspace_.Moepack("inspect layout:models:v1");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(published_["digest"].get<std::string>()));
  EXPECT_THAT(run.out, ContainsRegex("\nwhat +set\n"));
  EXPECT_THAT(run.out, ContainsRegex("\nparameters +11M\n"));
  EXPECT_THAT(run.out, ContainsRegex("\nrecipe +Q8_0\n"));
  EXPECT_THAT(run.out, ContainsRegex("\ngroups +000,001\n"));
  EXPECT_THAT(run.out, ContainsRegex("\ntags +v1\n"));
  EXPECT_THAT(run.out, ContainsRegex("\nsignatures +none\n"));
  EXPECT_THAT(run.out, ContainsRegex("\ntrunk +1  "));
}

TEST_F(InspectCommand, JsonHasTheManifestAndItsConfig) {
  const auto page = workspace_.Json("inspect layout:models:v1-g001 --json");
  EXPECT_EQ(page["what"], "node");
  EXPECT_EQ(page["facts"]["view of"], published_["digest"]);
  EXPECT_EQ(page["signatures"]["count"], 0);
  EXPECT_EQ(page["nodes"][0]["group"], 1);
  EXPECT_EQ(page["config"]["config"]["quantization"], "Q8_0");
  EXPECT_EQ(page["manifest"]["layers"].size(), page["nodes"][0]["files"]);
  const auto files = workspace_.Json("inspect out --json");
  EXPECT_EQ(files["digest"], published_["digest"]);
  EXPECT_TRUE(files["tags"].empty()) << files["tags"];
}

TEST_F(InspectCommand, RawIsTheManifestByteForByte) {
  const ToolRun run = workspace_.Moepack("inspect layout:models:v1 --raw");
  const std::string digest = published_["digest"];
  EXPECT_EQ(run.out, ReadFile(workspace_ / ("models/blobs/sha256/" + digest.substr(7))));
}

TEST_F(InspectCommand, ErrorsHaveTheirExitStatus) {
  EXPECT_EQ(workspace_.Moepack("inspect layout:models:v9").status, 5);
  EXPECT_EQ(workspace_.Moepack("inspect layout:absent").status, 5);
  EXPECT_EQ(workspace_.Moepack("inspect layout:models:v1 --raw --json").status, 2);
  EXPECT_EQ(workspace_.Moepack("inspect ftp://host/x").status, 4);
}

}  // namespace
}  // namespace moepack::cli
