#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace cli {
namespace {

using testing::HasSubstr;

class Diff : public testing::Test {
 protected:
  Diff() {
    const std::string build = "build fixtures/tiny-moe --no-verify --groups 3 ";
    EXPECT_EQ(workspace_.Moepack(build + "-o a").status, 0);
    EXPECT_EQ(workspace_.Moepack(build + "--partition modulo -o b").status, 0);
  }
  Workspace workspace_;
};

TEST_F(Diff, ADistributionIsTheSameAsItself) {
  const ToolRun run = workspace_.Moepack("diff a a/distribution.json --exit-code");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, "a and a/distribution.json are the same\n");
}

TEST_F(Diff, DifferencesAreNoErrorUnlessAskedFor) {
  EXPECT_EQ(workspace_.Moepack("diff a b").status, 0);
  const ToolRun run = workspace_.Moepack("diff a b --exit-code");
  EXPECT_EQ(run.status, 6);
  EXPECT_EQ(run.err, "");
}

TEST_F(Diff, TensorsAreCountedAndListedOnlyOnRequest) {
  EXPECT_THAT(workspace_.Moepack("diff a b").out, HasSubstr("(--tensors lists them)"));
  EXPECT_EQ(workspace_.Moepack("diff a b").out.find("up_proj"), std::string::npos);
  EXPECT_THAT(workspace_.Moepack("diff a b --tensors").out, HasSubstr("up_proj"));
}

TEST_F(Diff, JsonSaysWhatANodeMustFetch) {
  const auto json = workspace_.Json("diff a b --json");
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["changes"][0]["what"], "partition");
  // The trunk is the same file; the three groups are not.
  EXPECT_EQ(json["same_bytes"],
            std::filesystem::file_size(workspace_ / "a/trunk/trunk.safetensors"));
  EXPECT_GT(json["changed_bytes"], 3 * 7'000'000);
}

}  // namespace
}  // namespace cli
