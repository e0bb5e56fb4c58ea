#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kBuild = "build fixtures/tiny-moe --groups 3 -o out ";

TEST(Build, WritesVerifiesAndSuggestsTheNextCommands) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(kBuild);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("verification passed: "));
  EXPECT_THAT(run.out, HasSubstr("  moepack verify out --against fixtures/tiny-moe\n"));
  EXPECT_TRUE(std::filesystem::exists(workspace / "out/distribution.json"));
  EXPECT_FALSE(std::filesystem::exists(workspace / "out.partial"));
}

TEST(Build, ProveReadsTheSourceToo) {
  const Workspace workspace;
  const auto proved = workspace.Json(std::string(kBuild) + "--prove --json");
  EXPECT_EQ(proved["verify"]["passed"], true);
  EXPECT_GT(proved["verify"]["source_bytes"], 21'000'000);
  const auto plain = workspace.Json(std::string(kBuild) + "--force --json");
  EXPECT_EQ(plain["verify"]["source_bytes"], 0);
}

TEST(Build, RecordsAChunkMapOnlyForDistributions) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(std::string(kBuild) + "--quantize Q8_0 --chunk-map");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(ReadFile(workspace / "out/distribution.json"), HasSubstr("\"--chunk-map\"]"));
  const ToolRun again =
      workspace.Moepack("quantize out --recipe Q4_0 --allow-requantize --chunk-map -o out-2");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(ReadFile(workspace / "out-2/distribution.json"), HasSubstr("\"--chunk-map\"]"));
  const ToolRun refused =
      workspace.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 --chunk-map -o x.gguf");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--chunk-map has no effect: only distributions have one"));
}

TEST(Build, PrintsTheDigestThatVerifyAccepts) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(kBuild);
  const size_t at = run.out.find("distribution.json sha256:");
  ASSERT_NE(at, std::string::npos) << run.out;
  const std::string digest = run.out.substr(at + 18, 7 + 64);
  EXPECT_EQ(workspace.Moepack("verify out --no-digests --digest " + digest).status, 0);
  const auto again = workspace.Json("shard-experts fixtures/tiny-moe --groups 3 -o out-2 --json");
  EXPECT_EQ(again["manifest_sha256"].get<std::string>().size(), 64u);
  const ToolRun other = workspace.Moepack("verify out-2 --no-digests --digest " + digest);
  EXPECT_EQ(other.status, 6) << "another command line gives another manifest";
  EXPECT_THAT(other.out, HasSubstr(digest.substr(7)));
  EXPECT_THAT(other.out, HasSubstr(again["manifest_sha256"].get<std::string>()));
  const ToolRun wrong = workspace.Moepack("verify out --digest " + digest.substr(0, 20));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("expected sha256: and 64 hexadecimal digits"));
}

TEST(Build, SaysThatVerificationMayReadFromThePageCache) {
  const Workspace workspace;
  EXPECT_THAT(workspace.Moepack(kBuild).out,
              HasSubstr("what was just written may still be in memory: --cold"));
  const ToolRun cold = workspace.Moepack(std::string(kBuild) + "--force --cold");
  EXPECT_THAT(cold.out, HasSubstr(" of it past the page cache)"));
  EXPECT_EQ(cold.out.find("may still be in memory"), std::string::npos);
}

TEST(Build, GivesTheSameBytesForTheSameFilesInAnotherDirectory) {
  const Workspace workspace;
  std::filesystem::copy(workspace / "fixtures/tiny-moe", workspace / "renamed");
  const auto first = workspace.Json(std::string(kBuild) + "--quantize Q8_0 --json");
  const auto second =
      workspace.Json("build renamed --groups 3 -o out-2 --quantize Q8_0 --prove --json");
  EXPECT_EQ(first["manifest_sha256"], second["manifest_sha256"]);
  EXPECT_EQ(workspace.Moepack("verify out --against renamed").status, 0);
}

TEST(Build, VerificationCanBeSkipped) {
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

// Fine-tunes with a head of their own whose config still ties it to the embedding.
TEST(Build, AHeadThatDiffersFromATiedEmbeddingIsKeptOnEveryRoad) {
  const Workspace workspace;
  const auto path = workspace / "fixtures/tiny-moe/config.json";
  std::string config = ReadFile(path);
  const std::string untied = "\"tie_word_embeddings\": false";
  config.replace(config.find(untied), untied.size(), "\"tie_word_embeddings\": true");
  WriteAll(path, config);
  const std::string note =
      "tie_word_embeddings: expected a head that is the embedding, found one that "
      "differs in type or values; it is kept as output.weight";
  const ToolRun dry = workspace.Moepack(std::string(kBuild) + "--quantize Q8_0 --dry-run");
  EXPECT_THAT(dry.out + dry.err, HasSubstr(note));
  const ToolRun run = workspace.Moepack(std::string(kBuild) + "--quantize Q8_0");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(note));
  EXPECT_EQ(workspace.Moepack("verify out --against fixtures/tiny-moe").status, 0);
  const ToolRun quantized =
      workspace.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o whole.gguf");
  EXPECT_EQ(quantized.status, 0) << quantized.err;
  EXPECT_THAT(workspace.Moepack("list-tensors whole.gguf --regex '^output.weight'").out,
              HasSubstr("output.weight"));
  EXPECT_THAT(workspace.Moepack("list-tensors fixtures/tiny-moe --summary").out, HasSubstr(note));
}

}  // namespace
}  // namespace moepack::cli
