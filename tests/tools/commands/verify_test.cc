#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Verify : public testing::Test {
 protected:
  Verify() {
    EXPECT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o out --no-verify").status,
              0);
  }

  // Changes one byte near the end of a file.
  void Tamper(const std::string& name) {
    std::string bytes = ReadFile(workspace_ / name);
    bytes[bytes.size() - 100] ^= 1;
    WriteAll(workspace_ / name, bytes);
  }

  Workspace workspace_;
};

TEST_F(Verify, AGoodDistributionPassesEveryRule) {
  const ToolRun run = workspace_.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_EQ(run.status, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("out: passed: "));
  EXPECT_EQ(run.out.find("FAIL"), std::string::npos);
  EXPECT_EQ(run.err, "");
}

TEST_F(Verify, ATamperedFileHasStatus6AndIsNamed) {
  Tamper("out/groups/001/experts.safetensors");
  const ToolRun run = workspace_.Moepack("verify out");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("FAIL  file-sha256"));
  EXPECT_THAT(run.out, HasSubstr("error: file-sha256: groups/001/experts.safetensors: "));
  EXPECT_THAT(run.err, StartsWith("error: out: verification failed: "));
}

TEST_F(Verify, CopiesCannotClaimToBeARequantization) {
  auto manifest = nlohmann::ordered_json::parse(ReadFile(workspace_ / "out/distribution.json"));
  const std::string digest(64, '0');
  manifest["tool"]["parents"] = {{{"manifest_sha256", digest}, {"recipe", "Q2_K"}}};
  WriteAll(workspace_ / "out/distribution.json", manifest.dump(2) + "\n");
  const ToolRun run = workspace_.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("tool.parents: expected none for safetensors bundles"));
}

TEST_F(Verify, ChecksACopyOfOneGroup) {
  for (const char* other : {"out/groups/000", "out/groups/002"})
    std::filesystem::remove_all(workspace_ / other);
  EXPECT_EQ(workspace_.Moepack("verify out").status, 6);
  const ToolRun run = workspace_.Moepack("verify out --group 1 --against fixtures/tiny-moe");
  EXPECT_EQ(run.status, 0) << run.out;
  EXPECT_EQ(workspace_.Moepack("verify out --group 0").status, 6);
  const ToolRun none = workspace_.Moepack("verify out --group 3");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("out: group: expected 0 to 2, found 3"));
}

// One flipped bit of 8 in "experts": {"*": 8} gives 0, which was once used as a divisor.
TEST_F(Verify, AManifestWithoutExpertsCrashesNoCommand) {
  std::string text = ReadFile(workspace_ / "out/distribution.json");
  const std::string from = "\"experts\": {\"*\": 16}";
  ASSERT_NE(text.find(from), std::string::npos);
  text.replace(text.find(from), from.size(), "\"experts\": {\"*\": 0}");
  WriteAll(workspace_ / "out/distribution.json", text);
  EXPECT_EQ(workspace_.Moepack("verify out").status, 6);
  for (const char* command :
       {"diff out out", "assemble out --group 0 -o node", "run out --group 0 --prompt x",
        "check out", "quantize out --recipe Q4_0 -o out-2"}) {
    const ToolRun run = workspace_.Moepack(command);
    EXPECT_EQ(run.status, 3) << command << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr("expected at least 1, found 0")) << command;
  }
}

TEST_F(Verify, ReadsNoDataWithoutDigests) {
  Tamper("out/groups/001/experts.safetensors");
  const auto json = workspace_.Json("verify out --no-digests --json");
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["bytes"], 0);
}

TEST_F(Verify, EveryFormatHasTheSameExitStatus) {
  Tamper("out/trunk/trunk.safetensors");
  const ToolRun github = workspace_.Moepack("verify out --format github");
  EXPECT_EQ(github.status, 6);
  EXPECT_THAT(github.out, StartsWith("::error file=out/trunk/trunk.safetensors,title="));
  const ToolRun junit = workspace_.Moepack("verify out --format junit");
  EXPECT_EQ(junit.status, 6);
  EXPECT_THAT(junit.out, StartsWith("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "));
  const ToolRun json = workspace_.Moepack("verify out --format json");
  EXPECT_EQ(json.status, 6);
  EXPECT_EQ(nlohmann::json::parse(json.out)["passed"], false);
}

TEST_F(Verify, ADigestOfAnotherDistributionIsNoReasonToCopyFilesAgain) {
  const std::string digest = "verify out --digest sha256:" + std::string(64, '0');
  const ToolRun other = workspace_.Moepack(digest);
  EXPECT_EQ(other.status, 6);
  EXPECT_THAT(other.err, HasSubstr("but the digest is that of another one"));
  Tamper("out/groups/001/experts.safetensors");
  EXPECT_THAT(workspace_.Moepack(digest).err, HasSubstr("hint: copy these files again, or run "));
}

TEST_F(Verify, ADifferentSourceHasStatus6) {
  Tamper("fixtures/tiny-moe/model-00003-of-00003.safetensors");
  EXPECT_EQ(workspace_.Moepack("verify out").status, 0);
  const ToolRun run = workspace_.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_EQ(run.status, 6) << run.out;
  EXPECT_THAT(run.out, HasSubstr("FAIL  source-bytes"));
  const ToolRun other =
      workspace_.Moepack("verify out --against '" MOEPACK_SOURCE_DIR "/fixtures/tiny-sigmoid'");
  EXPECT_EQ(other.status, 6) << other.out;
  EXPECT_THAT(other.err, HasSubstr("but this is not the source that they were made from"));
}

}  // namespace
}  // namespace moepack::cli
