#include "manifest/node/assemble.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "manifest/document/node_record.h"
#include "manifest/verify/verify.h"
#include "tests/manifest/node/assemble_sample.h"

namespace moepack::manifest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(AssembleNodeTest, WritesAModelDirectoryWithAnIndexAndANodeFile) {
  Split("qwen3-moe");
  const auto report = Assemble(Group(1));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->expert_count, 4u);
  EXPECT_THAT(report->notes, IsEmpty());
  EXPECT_THAT(tiny::Names(dir_ / "node"),
              ElementsAre("config.json", "generation_config.json",
                          "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json", "moepack_node.json", "tokenizer.json"));
  EXPECT_FALSE(fs::exists(dir_ / "node.partial"));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "node/tokenizer.json"),
            fixtures::ReadFile(dir_ / "source/tokenizer.json"));
  const MoeModel node = tiny::Model(dir_ / "node");
  EXPECT_THAT(node.warnings(), IsEmpty());
  EXPECT_THAT(node.checkpoint().warnings(), IsEmpty());
  EXPECT_EQ(node.max_experts(), 4u);
}

TEST_F(AssembleNodeTest, TheNodeFileMapsEachIdToAnExpertOfTheModel) {
  Split("qwen3-moe");
  ASSERT_TRUE(Assemble(Group(1)));
  const Manifest manifest = *ReadManifest((dir_ / "dist").string());
  const auto node = nlohmann::json::parse(fixtures::ReadFile(dir_ / "node/moepack_node.json"));
  EXPECT_EQ(node["format"], "moepack-node");
  EXPECT_EQ(node["format_version"], "1.1");
  EXPECT_EQ(node["group"], 1);
  EXPECT_EQ(node["versions"]["model"], manifest.versions.model);
  EXPECT_EQ(node["versions"]["shard"], manifest.versions.shard);
  EXPECT_EQ(node["versions"]["replica"], manifest.versions.replica);
  EXPECT_EQ(node["experts"], nlohmann::json({{"*", "1,3-5"}}));
}

TEST_F(AssembleNodeTest, TheNodeFileRecordsDigestsRecipeToolVersionAndDistribution) {
  Split("qwen3-moe");
  ASSERT_TRUE(Assemble(Group(1)));
  const auto record = ReadNodeRecord((dir_ / "node").string());
  ASSERT_TRUE(record) << record.error().message;
  const std::string manifest = fixtures::ReadFile(dir_ / "dist/distribution.json");
  EXPECT_EQ(record->distribution_sha256, Sha256Hex(manifest));
  EXPECT_EQ(record->tool_version, ReadManifest((dir_ / "dist").string())->tool_version);
  std::vector<std::string> listed = {kNodeFile};
  for (const NodeFileRecord& file : record->files) {
    const std::string bytes = fixtures::ReadFile(dir_ / "node" / file.file);
    EXPECT_EQ(file.size, bytes.size()) << file.file;
    EXPECT_EQ(file.sha256, Sha256Hex(bytes)) << file.file;
    listed.push_back(file.file);
  }
  EXPECT_THAT(tiny::Names(dir_ / "node"), testing::UnorderedElementsAreArray(listed));
}

TEST_F(AssembleNodeTest, TwoRunsGiveTheSameDirectory) {
  Split("granite-moe");
  ASSERT_TRUE(Assemble());
  const auto first = tiny::Tree(dir_ / "node");
  ASSERT_TRUE(Assemble(Forced()));
  EXPECT_EQ(tiny::Tree(dir_ / "node"), first);
}

TEST_F(AssembleNodeTest, ADryRunWritesNothingAndKnowsEverySize) {
  Split("qwen3-moe");
  const auto before = tiny::Tree(dir_.path());
  const auto dry = Assemble(DryRun());
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_EQ(tiny::Tree(dir_.path()), before);
  ASSERT_TRUE(Assemble());
  uint64_t total = 0;
  for (const AssembleReport::File& file : dry->files) {
    EXPECT_EQ(fs::file_size(dir_ / "node" / file.name), file.bytes) << file.name;
    total += file.bytes;
  }
  EXPECT_EQ(dry->files.size(), 2u + 3u + 2u);
  EXPECT_EQ(dry->total_bytes(), total);
}

TEST_F(AssembleNodeTest, ADryRunIgnoresAnExistingOutput) {
  Split("qwen3-moe");
  fs::create_directory(dir_ / "node");
  const auto report = Assemble(DryRun());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->files.size(), 7u);
  EXPECT_TRUE(fs::is_empty(dir_ / "node"));
}

TEST_F(AssembleNodeTest, RoutingGroupsThatAreCutAreNoted) {
  Split("deepseek-v3");
  const auto report = Assemble();
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_THAT(report->notes[0], HasSubstr("n_group and topk_group are now 1"));
  EXPECT_EQ(nlohmann::json::parse(fixtures::ReadFile(dir_ / "node/config.json"))["n_group"], 1);
}

TEST_F(AssembleNodeTest, AGroupOutOfRangeIsRefused) {
  Split("qwen3-moe");
  const Error error = Refusal(Group(2));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("group: expected 0 to 1, found 2"));
}

TEST_F(AssembleNodeTest, WithoutAConfigThereIsNoModelDirectory) {
  Split("qwen3-moe", {"trunk", "group:0", "overlay"});
  const Error missing = Refusal();
  EXPECT_EQ(missing.code, Code::kNotFound);
  EXPECT_THAT(missing.message, HasSubstr("assets/config.json: expected it in the manifest"));
}

TEST_F(AssembleNodeTest, AConfigOrTokenizerThatContradictsTheManifestIsAMismatch) {
  Split("qwen3-moe");
  Damage("assets/tokenizer.json", 3);
  const Error tokenizer = Refusal();
  EXPECT_EQ(tokenizer.code, Code::kMismatch);
  EXPECT_THAT(tokenizer.message, HasSubstr("assets/tokenizer.json: sha256: expected "));

  const std::string config = fixtures::ReadFile(dir_ / "dist/assets/config.json");
  fixtures::WriteFile(dir_ / "dist/assets/config.json", config + "\n");
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("assets/config.json: sha256: expected "));
}

// It would overwrite the node's own weights.
TEST_F(AssembleNodeTest, AnAssetNamedLikeAWeightFileIsCorrupt) {
  Split("qwen3-moe");
  Manifest manifest = *ReadManifest((dir_ / "dist").string());
  for (const char* name : {"assets/model-00001-of-00002.safetensors", "x",
                           "assets/model.safetensors.index.json", "assets/moepack_node.json"}) {
    manifest.assets[2].file = name;
    fixtures::WriteFile(dir_ / "dist/distribution.json", WriteManifest(manifest));
    fixtures::WriteFile(dir_ / "dist" / name,
                        fixtures::ReadFile(dir_ / "dist/assets/tokenizer.json"));
    const Error error = Refusal();
    EXPECT_EQ(error.code, Code::kCorrupt) << name;
    EXPECT_THAT(error.message, HasSubstr(Cat("found \"", name, "\"")));
    const auto report = VerifyDistribution((dir_ / "dist").string(), {});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->passed()) << name;
    EXPECT_EQ(report->findings.at(0).rule, "manifest-schema");
  }
}

// Groups may differ from each other: a node is a single group.
TEST_F(AssembleNodeTest, ADamagedByteInACopiedTensorIsAMismatch) {
  Split("qwen3-moe");
  for (const auto& [file, part_of_name] : {std::pair(kTrunkBundle, "embed_tokens"),
                                           {kGroup0, "experts.2."},
                                           {kOverlayBundle, "experts.1."}}) {
    // Group 0 also holds the overlay's expert 1, which comes from there.
    const uint32_t group = std::string(file) == kOverlayBundle ? 1 : 0;
    const TensorRecord tensor = Tensor(file, part_of_name);
    Damage(file, tensor.offset + tensor.bytes / 2);
    const Error error = Refusal(Group(group));
    EXPECT_EQ(error.code, Code::kMismatch) << file;
    EXPECT_THAT(error.message, HasSubstr(file));
    EXPECT_THAT(error.message,
                HasSubstr(Cat(tensor.name, "\": xxh3-128: expected ", tensor.xxh3, ", found ")));
    EXPECT_THAT(error.hint, HasSubstr("moepack verify"));
    Damage(file, tensor.offset + tensor.bytes / 2);
  }
  EXPECT_TRUE(Assemble());
}

// A node has only some rows of routers and packed experts, and those have no digest of their own.
TEST_F(AssembleNodeTest, ADamagedByteInACutTensorIsAMismatch) {
  for (const auto& [layout, file, part_of_name] :
       {std::tuple("qwen3-moe", kTrunkBundle, "mlp.gate.weight"),
        {"granite-moe", kGroup0, "input_linear"},
        {"granite-moe", kOverlayBundle, "input_linear"}}) {
    Split(layout);
    const TensorRecord tensor = Tensor(file, part_of_name);
    Damage(file, tensor.offset + tensor.bytes - 1);
    const Error error = Refusal(Group(0));
    EXPECT_EQ(error.code, Code::kMismatch) << layout << " " << file;
    EXPECT_THAT(error.message, HasSubstr(Cat(file, ": tensor \"", tensor.name,
                                             "\": xxh3-128: expected ", tensor.xxh3)));
    fs::remove_all(dir_ / "dist");
    fs::remove_all(dir_ / "source");
  }
}

// The step that hashes the bytes to be cut, and the one that packs; the last report of each covers
// everything.
TEST_F(AssembleNodeTest, ProgressCountsTheBytesCheckedBeforeCutting) {
  Split("qwen3-moe");
  std::map<uint64_t, uint64_t> steps;  // total bytes -> the most that were done
  AssembleOptions options;
  options.pack.progress = [&](uint64_t done, uint64_t total) {
    steps[total] = std::max(steps[total], done);
  };
  ASSERT_TRUE(Assemble(options));
  EXPECT_EQ(steps.size(), 2u);
  for (const auto& [total, done] : steps) EXPECT_EQ(done, total);
}

TEST_F(AssembleNodeTest, AnExistingOutputIsRefusedUnlessForced) {
  Split("qwen3-moe");
  fs::create_directory(dir_ / "node");
  fixtures::WriteFile(dir_ / "node/mine.txt", "mine");
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.hint, HasSubstr("--force"));
  EXPECT_FALSE(Assemble(Forced())) << "what moepack did not write is not deleted";
  fs::remove(dir_ / "node/mine.txt");
  ASSERT_TRUE(Assemble(Forced()));
  ASSERT_TRUE(Assemble(Forced())) << "a node is replaced";
}

TEST_F(AssembleNodeTest, TheDistributionIsNeverReplaced) {
  Split("qwen3-moe");
  const auto before = tiny::Tree(dir_ / "dist");
  const std::string dist = (dir_ / "dist").string();
  for (const fs::path& out :
       {dir_ / "dist", dir_.path(), dir_ / "dist/groups", dir_ / "dist/groups/001",
        dir_ / "dist/assets", dir_ / "dist/distribution.json", dir_ / "dist/node0"}) {
    const auto report = AssembleNode(dist, out.string(), Forced());
    ASSERT_FALSE(report) << out;
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
    EXPECT_THAT(report.error().message, HasSubstr(" the input "));
    EXPECT_EQ(tiny::Tree(dir_ / "dist"), before);
  }
}

TEST_F(AssembleNodeTest, ADirectoryWithoutAManifestIsNotFound) {
  EXPECT_EQ(Refusal().code, Code::kNotFound);
}

}  // namespace
}  // namespace moepack::manifest
