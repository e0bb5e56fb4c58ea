#include <gmock/gmock.h>

#include <map>

#include "fixtures/safetensors_writer.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kShardToOut =
    "shard-experts fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json -o out ";

std::map<std::string, uint64_t> SizesOf(const nlohmann::json& report) {
  std::map<std::string, uint64_t> sizes;
  for (const auto& file : report["files"]) sizes[file["file"]] = file["bytes"];
  return sizes;
}

std::map<std::string, uint64_t> SizesOnDisk(const std::filesystem::path& root) {
  std::map<std::string, uint64_t> sizes;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_regular_file())
      sizes[std::filesystem::relative(entry.path(), root).string()] = entry.file_size();
  }
  return sizes;
}

TEST(ShardExperts, ADryRunWritesNothingAndPredictsEveryFile) {
  const Workspace workspace;
  const std::string before = workspace.Listing();
  const auto dry = workspace.Json(std::string(kShardToOut) + "--dry-run --json");
  EXPECT_EQ(workspace.Listing(), before);
  EXPECT_EQ(dry["dry_run"], true);

  const auto written = workspace.Json(std::string(kShardToOut) + "--json");
  EXPECT_EQ(SizesOf(written), SizesOf(dry));
  EXPECT_EQ(written["bytes"], dry["bytes"]);
  auto on_disk = SizesOnDisk(workspace / "out");
  EXPECT_EQ(on_disk.erase("distribution.json") + on_disk.erase("README.md"), 2u);
  EXPECT_EQ(on_disk, SizesOf(dry));
}

TEST(ShardExperts, ReportsDigestsAndNodes) {
  const auto json = Workspace().Json(std::string(kShardToOut) + "--json");
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["nodes"].size(), 3u);
  EXPECT_EQ(json["files"][0]["role"], "trunk");
  EXPECT_EQ(json["files"][0]["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(json["versions"]["model"].get<std::string>().size(), 16u);
}

TEST(ShardExperts, TheManifestRecordsTheCommandWithoutPaths) {
  const Workspace workspace;
  workspace.Json(std::string(kShardToOut) + "--jobs 1 --memory 2M --json");
  const auto manifest = nlohmann::json::parse(ReadFile(workspace / "out/distribution.json"));
  EXPECT_EQ(manifest["tool"]["command"],
            nlohmann::json::array({"shard-experts", "--groups", "3", "--partition", "contiguous",
                                   "--overlay-file", "tiny-overlay.json", "--uniform"}));
}

TEST(ShardExperts, JobsAndMemoryDoNotChangeTheBytes) {
  const Workspace workspace;
  const std::string shard = "shard-experts fixtures/tiny-moe --groups 2 ";
  EXPECT_EQ(workspace.Moepack(shard + "-o a --jobs 1 --memory 1MiB").status, 0);
  EXPECT_EQ(workspace.Moepack(shard + "-o b --jobs 4 --memory 64MiB").status, 0);
  EXPECT_EQ(ReadFile(workspace / "a/distribution.json"),
            ReadFile(workspace / "b/distribution.json"));
}

TEST(ShardExperts, WritesPartsOneByOne) {
  const Workspace workspace;
  const std::string shard = "shard-experts fixtures/tiny-moe --groups 3 -o out ";
  const auto first = workspace.Json(shard + "--only group:1 --only assets --json");
  EXPECT_EQ(first["complete"], false);
  EXPECT_TRUE(std::filesystem::exists(workspace / "out/groups/001/experts.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(workspace / "out/trunk"));
  const auto second =
      workspace.Json(shard + "--only trunk --only group:0 --only group:2 --only overlay --json");
  EXPECT_EQ(second["complete"], true);
  EXPECT_EQ(workspace.Moepack("verify out --against fixtures/tiny-moe").status, 0);
}

TEST(ShardExperts, APlanFileGivesTheSameBundlesAsItsOptions) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack("plan fixtures/tiny-moe --groups 3").status, 0);
  EXPECT_EQ(workspace.Moepack("shard-experts fixtures/tiny-moe --plan plan.json -o a").status, 0);
  EXPECT_EQ(workspace.Moepack("shard-experts fixtures/tiny-moe --groups 3 -o b").status, 0);
  const auto versions = [&](const char* name) {
    return nlohmann::json::parse(ReadFile(workspace / name))["versions"];
  };
  EXPECT_EQ(versions("a/distribution.json"), versions("b/distribution.json"));
}

TEST(ShardExperts, SplitsPartsAtTheGivenSize) {
  const Workspace workspace;
  const auto json = workspace.Json(std::string(kShardToOut) + "--max-part-size 1MB --json");
  EXPECT_GT(json["files"].size(), 20u);
  for (const auto& file : json["files"]) EXPECT_LE(file["bytes"], 1'000'000) << file["file"];
}

TEST(ShardExperts, AnExistingOutputIsKeptUnlessForced) {
  const Workspace workspace;
  WriteAll(workspace / "out/mine.txt", "mine");
  const ToolRun refused = workspace.Moepack(kShardToOut);
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("hint: "));
  EXPECT_EQ(ReadFile(workspace / "out/mine.txt"), "mine");
}

TEST(ShardExperts, AnExistingOutputIsRefusedBeforeAnyWarning) {
  const Workspace workspace;
  WriteAll(workspace / "out/mine.txt", "mine");
  EXPECT_THAT(workspace.Moepack(std::string(kShardToOut) + "--dry-run --force").err,
              HasSubstr("holds \"mine.txt\", but no distribution.json"));
  for (const std::string command : {"shard-experts", "build"}) {
    const std::string make = command + " fixtures/tiny-moe --groups 3 -o ";
    EXPECT_THAT(workspace.Moepack(make + "new --dry-run").err, HasSubstr("warning: ")) << command;
    const ToolRun refused = workspace.Moepack(make + "out");
    EXPECT_EQ(refused.status, 2) << command;
    EXPECT_THAT(refused.err, StartsWith("error: out already exists, and holds \"mine.txt\", "))
        << command;
  }
}

TEST(ShardExperts, ForceReplacesADistribution) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack(kShardToOut).status, 0);
  const auto json =
      workspace.Json("shard-experts fixtures/tiny-moe --groups 2 -o out --force --json");
  EXPECT_EQ(json["nodes"].size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(workspace / "out/groups/002"));
}

TEST(ShardExperts, RefusesTheSourceAsOutput) {
  const Workspace workspace;
  const auto before = SizesOnDisk(workspace / "fixtures");
  for (const char* out : {"fixtures", "fixtures/tiny-moe"}) {
    const ToolRun run = workspace.Moepack(
        std::string("shard-experts fixtures/tiny-moe --groups 2 --force -o ") + out);
    EXPECT_EQ(run.status, 2) << run.err;
  }
  EXPECT_EQ(SizesOnDisk(workspace / "fixtures"), before);
}

TEST(ShardExperts, AConfigThatContradictsShapesIsRefusedBeforeAnythingIsWritten) {
  const Workspace workspace;
  const auto path = workspace / "fixtures/tiny-moe/config.json";
  std::filesystem::permissions(path, std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  auto config = nlohmann::json::parse(ReadFile(path));
  config["hidden_size"] = 512;
  WriteAll(path, config.dump());
  const std::string before = workspace.Listing();
  for (const char* command : {"shard-experts", "build"}) {
    const ToolRun run =
        workspace.Moepack(std::string(command) + " fixtures/tiny-moe --groups 2 -o out");
    EXPECT_EQ(run.status, 3) << command << run.err;
    EXPECT_THAT(run.err, HasSubstr("config.json: misshapen: tensor \"model.embed_tokens.weight\": "
                                   "expected [1024, 512] (vocab_size, hidden_size), found [1024, "
                                   "256]"));
    EXPECT_THAT(run.err, HasSubstr("hint: `moepack list-tensors fixtures/tiny-moe --check` names"));
    EXPECT_EQ(workspace.Listing(), before) << command;
  }
}

// ModelOpt writes no input_scale for experts that its calibration never reached.
TEST(ShardExperts, ScalesOfActivationsThatSomeExpertsLackAreSplitAndAssembled) {
  const Workspace workspace;
  std::filesystem::create_directories(workspace / "model");
  for (const char* file :
       {"config.json", "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(workspace / "fixtures/tiny-moe" / file, workspace / "model");
  std::vector<fixtures::RawTensor> scales;
  for (const char* expert : {"0", "9"})
    scales.push_back({std::string("model.layers.1.mlp.experts.") + expert + ".up_proj.input_scale",
                      "F32",
                      {},
                      std::string(4, '\1')});
  ASSERT_TRUE(fixtures::WriteSafetensors(workspace / "model/scales.safetensors", scales));
  const ToolRun split = workspace.Moepack("shard-experts model --groups 2 -o out");
  EXPECT_EQ(split.status, 0) << split.err;
  EXPECT_EQ(workspace.Moepack("verify out --against model").status, 0);
  const ToolRun node = workspace.Moepack("assemble out --group 1 -o node");
  EXPECT_EQ(node.status, 0) << node.err;
  EXPECT_THAT(workspace.Moepack("list-tensors node --regex input_scale").out,
              HasSubstr("experts.1.up_proj.input_scale"));
  const ToolRun gguf = workspace.Moepack("quantize model --recipe Q8_0 -o model.gguf");
  EXPECT_EQ(gguf.status, 0) << gguf.err;
}

}  // namespace
}  // namespace moepack::cli
