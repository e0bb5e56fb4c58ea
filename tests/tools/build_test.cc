#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace cli {
namespace {

using testing::HasSubstr;

constexpr const char* kBuild = "build fixtures/tiny-moe --groups 3 -o out ";

TEST(Build, WritesVerifiesAndSaysWhatToTryNext) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(kBuild);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("verification passed: "));
  EXPECT_THAT(run.out, HasSubstr("  moepack verify out --against fixtures/tiny-moe\n"));
  EXPECT_TRUE(std::filesystem::exists(workspace / "out/distribution.json"));
  EXPECT_FALSE(std::filesystem::exists(workspace / "out.partial"));
}

TEST(Build, ProofReadsTheSourceToo) {
  const Workspace workspace;
  const auto proved = workspace.Json(std::string(kBuild) + "--prove --json");
  EXPECT_EQ(proved["verify"]["passed"], true);
  EXPECT_GT(proved["verify"]["source_bytes"], 21'000'000);
  const auto plain = workspace.Json(std::string(kBuild) + "--force --json");
  EXPECT_EQ(plain["verify"]["source_bytes"], 0);
}

TEST(Build, VerificationCanBeLeftOut) {
  const auto json = Workspace().Json(std::string(kBuild) + "--no-verify --json");
  EXPECT_EQ(json["verify"], nullptr);
}

TEST(Build, ADryRunWritesNothing) {
  const Workspace workspace;
  const std::string before = workspace.Listing();
  const ToolRun run = workspace.Moepack(std::string(kBuild) + "--dry-run");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("would write "));
  EXPECT_EQ(workspace.Listing(), before);
}

}  // namespace
}  // namespace cli
