// GGUF through the commands: distributions, nodes, verification.
#include <gmock/gmock.h>

#include <set>

#include "fixtures/gguf_writer.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/imatrix.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Gguf : public testing::Test {
 protected:
  void Build(const std::string& options) {
    const ToolRun run =
        workspace_.Moepack("build fixtures/tiny-moe --groups 3 --no-verify -o out " + options);
    EXPECT_EQ(run.status, 0) << run.err;
  }
  // Changes one byte in the middle of a file.
  void Damage(const fs::path& path) {
    std::string bytes = ReadFile(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    WriteAll(path, bytes);
  }
  Workspace workspace_;
};

TEST_F(Gguf, ANodeIsASplitSetThatSharesItsTrunkWithAllNodes) {
  Build("--quantize Q4_K_M");
  const auto one = workspace_.Json("assemble out --group 1 -o one --json");
  const auto two = workspace_.Json("assemble out --group 2 -o two --json");
  EXPECT_EQ(one["server_command"], "llama-server -m one/node-00001-of-00003.gguf");
  EXPECT_TRUE(fs::equivalent(workspace_ / "one/node-00002-of-00003.gguf",
                             workspace_ / "two/node-00002-of-00003.gguf"));
  const auto summary = workspace_.Json("list-tensors one --summary --json");
  EXPECT_EQ(summary["experts"], 6);
}

TEST_F(Gguf, TheTrunkDoesNotDependOnGroupsOrOverlay) {
  Build("--quantize Q4_K_M");
  EXPECT_EQ(workspace_
                .Moepack("build fixtures/tiny-moe --groups 5 --quantize Q4_K_M --overlay-file "
                         "fixtures/tiny-overlay.json --no-verify -o other")
                .status,
            0);
  EXPECT_TRUE(ReadFile(workspace_ / "out/trunk/trunk.gguf") ==
              ReadFile(workspace_ / "other/trunk/trunk.gguf"));
}

TEST_F(Gguf, EveryKindOfLinkGivesTheSameBytes) {
  Build("--quantize Q8_0");
  const std::string trunk = ReadFile(workspace_ / "out/trunk/trunk.gguf");
  for (const std::string kind : {"hardlink", "symlink", "copy", "auto"}) {
    const ToolRun run = workspace_.Moepack("assemble out --group 0 --link " + kind + " -o " + kind);
    EXPECT_EQ(run.status, 0) << run.err;
    const fs::path file = workspace_ / kind / "node-00002-of-00003.gguf";
    EXPECT_TRUE(ReadFile(file) == trunk) << kind;
    EXPECT_EQ(workspace_.Moepack("verify " + kind).status, 0) << kind;
    EXPECT_EQ(fs::is_symlink(file), kind == "symlink");
  }
}

// A node is never made from a trunk that contradicts the manifest.
TEST_F(Gguf, RefusesADamagedTrunkWithEveryKindOfLink) {
  Build("--quantize Q8_0");
  Damage(workspace_ / "out/trunk/trunk.gguf");
  for (const std::string options :
       {"--link hardlink", "--link symlink", "--link copy", "--link auto", "--layout single"}) {
    const ToolRun run = workspace_.Moepack("assemble out --group 0 -o node " + options);
    EXPECT_EQ(run.status, 6) << options << run.err;
    EXPECT_THAT(run.err, HasSubstr("out/trunk/trunk.gguf: ")) << options;
    EXPECT_FALSE(fs::exists(workspace_ / "node")) << options;
    EXPECT_FALSE(fs::exists(workspace_ / "node.partial")) << options;
  }
}

TEST_F(Gguf, ASymlinkToTheTrunkIsRelative) {
  Build("--quantize Q8_0 --max-part-size 900k");
  const ToolRun run = workspace_.Moepack("assemble out --group 0 --link symlink -o nodes/a/node");
  ASSERT_EQ(run.status, 0) << run.err;
  fs::create_directory(workspace_ / "moved");
  fs::rename(workspace_ / "out", workspace_ / "moved/out");
  fs::rename(workspace_ / "nodes", workspace_ / "moved/nodes");
  size_t links = 0;
  for (const auto& entry : fs::directory_iterator(workspace_ / "moved/nodes/a/node")) {
    links += entry.is_symlink();
    EXPECT_TRUE(fs::is_regular_file(entry.path())) << entry.path();
    EXPECT_TRUE(!entry.is_symlink() || fs::read_symlink(entry.path()).is_relative());
  }
  EXPECT_GE(links, 1u);
  const ToolRun verified = workspace_.Moepack("verify moved/nodes/a/node");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(Gguf, ANodeWithASymlinkedTrunkIsAModelForEveryCommand) {
  Build("--quantize Q8_0");
  ASSERT_EQ(workspace_.Moepack("assemble out --group 0 --link symlink -o s").status, 0);
  ASSERT_EQ(workspace_.Moepack("assemble out --group 0 --link copy -o c").status, 0);
  for (const std::string source : {"", "/node-00001-of-00003.gguf", "/node-00002-of-00003.gguf"}) {
    const ToolRun linked = workspace_.Moepack("list-tensors s" + source);
    EXPECT_EQ(linked.status, 0) << source << linked.err;
    EXPECT_EQ(linked.out, workspace_.Moepack("list-tensors c" + source).out) << source;
  }
  EXPECT_EQ(workspace_.Moepack("list-tensors s --summary").status, 0);
  EXPECT_EQ(workspace_.Moepack("plan s --groups 2").status, 0);
  Damage(workspace_ / "out/trunk/trunk.gguf");
  const ToolRun damaged = workspace_.Moepack("list-tensors s");
  EXPECT_EQ(damaged.status, 6) << damaged.out;
  EXPECT_THAT(damaged.err, HasSubstr("s/node-00002-of-00003.gguf: sha256: expected "));
}

// The author of a directory must not be able to have other files read by linking to them.
TEST_F(Gguf, FollowsALinkOutOfADirectoryOnlyIfItsTargetHasTheDigest) {
  Build("--quantize Q8_0");
  ASSERT_EQ(workspace_.Moepack("assemble out --group 0 --link symlink -o s").status, 0);
  ASSERT_EQ(workspace_.Moepack("assemble out --group 1 --layout single -o secret").status, 0);
  const auto expect_refused = [&](int status, const std::string& message) {
    const ToolRun run = workspace_.Moepack("list-tensors s");
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  const fs::path trunk = workspace_ / "s/node-00002-of-00003.gguf";
  fs::remove(trunk);
  fs::create_symlink("../secret/node.gguf", trunk);
  expect_refused(6, "s/node-00002-of-00003.gguf: size: expected ");
  fs::remove(workspace_ / "s/moepack_node.json");
  expect_refused(3, "expected a file inside s, found a link to ");
  WriteAll(workspace_ / "s/moepack_node.json", "{}");
  expect_refused(3, "s/moepack_node.json: format: expected");
}

TEST_F(Gguf, DoesNotFollowALinkOfAnUnlistedFile) {
  Build("--quantize Q8_0");
  ASSERT_EQ(workspace_.Moepack("assemble out --group 0 --layout single -o s").status, 0);
  ASSERT_EQ(workspace_.Moepack("assemble out --group 1 --layout single -o secret").status, 0);
  fs::remove(workspace_ / "s/node.gguf");
  fs::create_symlink("../secret/node.gguf", workspace_ / "s/other.gguf");
  const ToolRun run = workspace_.Moepack("list-tensors s");
  EXPECT_EQ(run.status, 3) << run.out;
  EXPECT_THAT(run.err, HasSubstr("expected a file inside s, found a link to "));
  EXPECT_EQ(workspace_.Moepack("list-tensors s/other.gguf").status, 0)
      << "a link that the user names is followed";
}

TEST_F(Gguf, ASingleFileHoldsTheSameAsTheSet) {
  Build("--quantize Q8_0 --overlay-file fixtures/tiny-overlay.json");
  EXPECT_EQ(workspace_.Moepack("assemble out --group 0 --layout single --name tiny -o one").status,
            0);
  EXPECT_EQ(workspace_.Moepack("assemble out --group 0 -o set").status, 0);
  const auto tensors = [&](const std::string& source) {
    std::map<std::string, std::string> types;
    const auto list = workspace_.Json("list-tensors " + source + " --json");
    for (const auto& tensor : list["tensors"]) {
      types[tensor["name"]] = tensor["dtype"].get<std::string>() + tensor["shape"].dump();
    }
    return types;
  };
  EXPECT_EQ(tensors("one/tiny.gguf").size(), 39u);
  EXPECT_EQ(tensors("one/tiny.gguf"), tensors("set"));
}

TEST_F(Gguf, RefusesNamesThatLoadersWouldMisread) {
  Build("--quantize Q8_0");
  for (const char* name : {"a/b", "x-00001-of-00002", "''", ".hidden"}) {
    const ToolRun run =
        workspace_.Moepack(std::string("assemble out --group 0 -o n --name ") + name);
    EXPECT_EQ(run.status, 2) << name;
  }
}

TEST_F(Gguf, RefusesANodeWithAnOverlayOfAnotherType) {
  Build("--quantize Q4_K_M --overlay-type q8_0 --overlay-file fixtures/tiny-overlay.json");
  const ToolRun run = workspace_.Moepack("assemble out --group 0 -o node");
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_THAT(run.err, HasSubstr("expected one type in group and overlay"));
  EXPECT_FALSE(fs::exists(workspace_ / "node"));
}

TEST_F(Gguf, RefusesANodeWhoseExpertCountsDifferBetweenLayers) {
  Build("--quantize Q8_0 --no-uniform --overlay-file fixtures/tiny-overlay.json");
  const ToolRun run = workspace_.Moepack("assemble out --group 1 -o node");
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_THAT(run.err, HasSubstr("plan with --uniform"));
}

TEST_F(Gguf, VerifyRecomputesEveryTensorFromTheSource) {
  Build("--quantize Q4_K_M --overlay-file fixtures/tiny-overlay.json");
  const ToolRun good = workspace_.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_EQ(good.status, 0) << good.out;
  // A damaged file whose digests were corrected is noticed only against the source.
  Damage(workspace_ / "out/groups/001/experts.gguf");
  EXPECT_EQ(workspace_.Moepack("verify out").status, 6);
}

TEST_F(Gguf, VerifyOfANodeFindsDamageInAnyOfItsFiles) {
  Build("--quantize Q8_0");
  ASSERT_EQ(workspace_.Moepack("assemble out --group 1 --link copy -o node").status, 0);
  const ToolRun good = workspace_.Moepack("verify node -v");
  EXPECT_EQ(good.status, 0) << good.out;
  EXPECT_THAT(good.out, HasSubstr("node-experts"));
  for (const char* name :
       {"node-00001-of-00003.gguf", "node-00002-of-00003.gguf", "node-00003-of-00003.gguf"}) {
    Damage(workspace_ / "node" / name);
    const ToolRun bad = workspace_.Moepack("verify node --format github");
    EXPECT_EQ(bad.status, 6) << name;
    EXPECT_THAT(bad.out, HasSubstr("file=node/" + std::string(name) +
                                   ",title=moepack verify%3A file-sha256"))
        << name;
    EXPECT_THAT(bad.err, HasSubstr("hint: copy these files again, or run assemble "));
    EXPECT_EQ(workspace_.Moepack("run node --prompt hi -n 1").status, 6) << name;
    Damage(workspace_ / "node" / name);
  }
  EXPECT_EQ(workspace_.Moepack("run node --prompt hi -n 1").status, 0);
}

TEST_F(Gguf, NoticesWeightsOfAnotherModel) {
  Build("--quantize Q8_0");
  fs::copy(workspace_ / "fixtures/tiny-moe", workspace_ / "other");
  const fs::path shard = workspace_ / "other/model-00002-of-00003.safetensors";
  fs::permissions(shard, fs::perms::owner_write, fs::perm_options::add);
  // The byte with sign and exponent: rounding to q8_0 may hide a change of a lower bit.
  std::string bytes = ReadFile(shard);
  char& high = bytes[bytes.size() / 2 + 1];
  high = static_cast<char>(high ^ 0x40);
  WriteAll(shard, bytes);
  const ToolRun run = workspace_.Moepack("verify out --against other");
  EXPECT_EQ(run.status, 6);
  EXPECT_THAT(run.out, HasSubstr("FAIL  source-bytes"));
}

TEST_F(Gguf, AGgufSourceIsSplitIntoTheSameExpertsAsItsCheckpoint) {
  EXPECT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q4_K_M -o q4.gguf").status, 0);
  EXPECT_EQ(workspace_.Moepack("build q4.gguf --groups 3 --prove -o cut").status, 0);
  Build("--quantize Q4_K_M");
  const auto xxh3 = [&](const char* dist) {
    std::map<std::string, std::string> sums;
    const auto manifest = nlohmann::json::parse(ReadFile(workspace_ / dist / "distribution.json"));
    for (const auto& bundle : manifest["bundles"]) {
      for (const auto& tensor : bundle["tensors"]) {
        sums[bundle["file"].get<std::string>() + tensor["name"].get<std::string>()] =
            tensor["xxh3"];
      }
    }
    return sums;
  };
  EXPECT_GT(xxh3("cut").size(), 50u);
  EXPECT_EQ(xxh3("cut"), xxh3("out"));
}

TEST_F(Gguf, AGgufSourceCannotBecomeSafetensors) {
  EXPECT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe BF16 -o b.gguf").status, 0);
  const ToolRun run = workspace_.Moepack("build b.gguf --groups 2 --format safetensors -o out");
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err,
              HasSubstr("--format safetensors cannot be written from b.gguf, which is GGUF"));
}

TEST_F(Gguf, OptionsAboutTypesAreRefusedForSafetensors) {
  const ToolRun run = workspace_.Moepack(
      "build fixtures/tiny-moe --groups 2 --format safetensors --quantize Q8_0 -o out");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err,
              HasSubstr("--format safetensors cannot be used with options that choose types"));
}

TEST_F(Gguf, RefusesToAddPartsOfAnotherRecipe) {
  const std::string shard = "shard-experts fixtures/tiny-moe --groups 3 -o out ";
  EXPECT_EQ(workspace_.Moepack(shard + "--only trunk --quantize Q4_K_M").status, 0);
  const ToolRun other = workspace_.Moepack(shard + "--only group:1 --quantize Q5_K_M");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("expected Q5_K_M, found Q4_K_M"));
  EXPECT_EQ(workspace_.Moepack(shard + "--only group:1 --quantize Q4_K_M").status, 0);
  EXPECT_EQ(workspace_.Moepack("assemble out --group 1 -o node").status, 0);
}

TEST_F(Gguf, ADryRunOfABuildShowsBytesAndBitsByPart) {
  const ToolRun dry =
      workspace_.Moepack("build fixtures/tiny-moe --groups 3 --quantize Q4_K_M --dry-run -o out");
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("bits per weight"));
  EXPECT_FALSE(fs::exists(workspace_ / "out"));
  const auto predicted = workspace_.Json(
      "build fixtures/tiny-moe --groups 3 --quantize Q4_K_M --dry-run --json -o out");
  Build("--quantize Q4_K_M");
  for (const auto& file : predicted["files"]) {
    const fs::path path = workspace_ / "out" / file["file"].get<std::string>();
    EXPECT_EQ(fs::file_size(path), file["bytes"]) << path;
  }
}

TEST_F(Gguf, NoticesDamageBeforeCopyingItOrGivingItNewDigests) {
  Build("--quantize Q8_0");
  Damage(workspace_ / "out/groups/001/experts.gguf");
  const ToolRun node = workspace_.Moepack("assemble out --group 1 -o node");
  EXPECT_EQ(node.status, 6) << node.err;
  EXPECT_THAT(node.err, HasSubstr("out/groups/001/experts.gguf: sha256"));
  const ToolRun again =
      workspace_.Moepack("quantize out --recipe Q4_0 --allow-requantize -o again");
  EXPECT_EQ(again.status, 6) << again.err;
  EXPECT_FALSE(fs::exists(workspace_ / "again"));
}

// One flipped bit in distribution.json.
TEST_F(Gguf, AManifestWithAMisspelledKeyIsAMismatchAndNotASignal) {
  Build("--quantize Q8_0");
  std::string text = ReadFile(workspace_ / "out/distribution.json");
  const size_t tensor = text.find("\"xxh3\"", text.find("\"groups/000/experts.gguf\""));
  const size_t at = text.find("\"experts\"", tensor);
  ASSERT_LT(at, text.size());
  text[at + 1] = 'd';
  WriteAll(workspace_ / "out/distribution.json", text);
  const ToolRun node = workspace_.Moepack("assemble out --group 0 -o node");
  EXPECT_EQ(node.status, 6) << node.err;
  EXPECT_THAT(node.err, HasSubstr("experts: expected the ids that it holds in the manifest"));
  EXPECT_FALSE(fs::exists(workspace_ / "node"));
}

TEST_F(Gguf, ARecipeNamesEarlierRounding) {
  Build("--quantize Q8_0");
  EXPECT_EQ(workspace_.Moepack("quantize out --recipe Q4_0 --allow-requantize -o again").status, 0);
  const auto manifest = nlohmann::json::parse(ReadFile(workspace_ / "again/distribution.json"));
  EXPECT_EQ(manifest["tool"]["recipe"], "Q4_0 of Q8_0");
  const ToolRun mixed = workspace_.Moepack(
      "shard-experts fixtures/tiny-moe --groups 3 --only group:0 --quantize Q4_0 --force -o again");
  EXPECT_EQ(mixed.status, 2);
  EXPECT_THAT(mixed.err, HasSubstr("expected Q4_0, found Q4_0 of Q8_0"));
}

TEST_F(Gguf, TheExpertsOfANodeMayBeSeveralFiles) {
  Build("--quantize Q8_0 --max-part-size 500k");
  const auto node = workspace_.Json("assemble out --group 0 --max-part-size 500k -o node --json");
  ASSERT_GT(node["files"].size(), 8u);
  Build("--quantize Q8_0 --force");
  EXPECT_EQ(workspace_.Moepack("assemble out --group 0 -o one").status, 0);
  // Each tensor, but not where it is.
  const auto tensors = [&](const std::string& name) {
    auto listed = workspace_.Json("list-tensors " + name + " --json")["tensors"];
    std::set<std::string> lines;
    for (auto& tensor : listed) {
      tensor.erase("file");
      tensor.erase("offset");
      lines.insert(tensor.dump());
    }
    return lines;
  };
  EXPECT_EQ(tensors("node").size(), 39u);
  EXPECT_EQ(tensors("node"), tensors("one"));
  const ToolRun verified = workspace_.Moepack("verify node");
  EXPECT_EQ(verified.status, 0) << verified.err;
}

TEST_F(Gguf, AnUnknownArchitectureIsSplitLikeAnyOtherWithAWarning) {
  WriteAll(workspace_ / "new.gguf", fixtures::GgufBytes(fixtures::MiniGguf("newmoe", 1, 4)));
  EXPECT_EQ(workspace_.Json("list-tensors new.gguf --summary --json")["experts"], 4);
  const ToolRun whole = workspace_.Moepack("quantize new.gguf --recipe BF16 -o bf16.gguf");
  EXPECT_EQ(whole.status, 0) << whole.err;
  const std::string warning =
      "new.gguf: architecture: expected one with experts that llama.cpp "
      "v0.5.0 has, found \"newmoe\": it is split by the names of its tensors and its keys about "
      "experts (newmoe.expert_feed_forward_length 2, newmoe.expert_count 4, "
      "newmoe.expert_used_count 2)";
  EXPECT_THAT(whole.err, HasSubstr(warning));
  const ToolRun split = workspace_.Moepack("build new.gguf --groups 2 -o split");
  EXPECT_EQ(split.status, 0) << split.err;
  EXPECT_THAT(split.err, HasSubstr(warning));
  EXPECT_EQ(workspace_.Moepack("assemble split --group 1 -o node").status, 0);
  EXPECT_EQ(workspace_.Json("list-tensors node --summary --json")["experts"], 2);
  const ToolRun again = workspace_.Moepack("quantize split --recipe Q8_0 -o smaller");
  EXPECT_EQ(again.status, 0) << again.err;
  const ToolRun proof = workspace_.Moepack("verify split --against new.gguf");
  EXPECT_EQ(proof.status, 0) << proof.err;
  for (const char* command : {"run new.gguf --prompt a", "check split"}) {
    const ToolRun refused = workspace_.Moepack(command);
    EXPECT_EQ(refused.status, 4) << command;
    EXPECT_THAT(refused.err, HasSubstr("expected one that the runtime shim runs, found"));
    EXPECT_THAT(refused.err, HasSubstr("split, quantized, verified and assembled"));
  }
}

// ikawrakow/ik_llama.cpp #1419, #1805
TEST_F(Gguf, AMatrixMeasuredWithFusedExpertsOrOnlyUpWeighsGateToo) {
  for (const std::string measured : {"ffn_up_exps", "ffn_gate_up_exps"}) {
    Imatrix imatrix;
    imatrix.datasets = {"text"};
    imatrix.chunks = imatrix.chunk_tokens = 1;
    for (int layer = 0; layer < 3; ++layer) {
      ImatrixEntry& entry = imatrix.entries[Cat("blk.", layer, ".", measured, ".weight")];
      entry.sums.assign(16 * 256, 2);
      entry.counts.assign(16, 1);
    }
    const std::string file = measured + ".gguf";
    ASSERT_TRUE(WriteImatrix((workspace_ / file).string(), imatrix));
    const ToolRun run = workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q4_K_M --imatrix " +
                                           file + " --dry-run -o q.gguf");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("ffn_gate_exps from " + measured +
                                   " in 3 layers: no entry of "
                                   "its own, but both have the same input"));
    EXPECT_THAT(run.err, testing::Not(HasSubstr("no tensor of this model")));
  }
}

// llama.cpp #25024, #26916
TEST_F(Gguf, ABlockThatIsAnnouncedAndMissingIsRefusedAndNoMtpRepairsTheKeys) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3next", 2, 4);
  file.pairs[1] = fixtures::GgufPairU32("qwen3next.block_count", 3);
  file.pairs.push_back(fixtures::GgufPairU32("qwen3next.nextn_predict_layers", 1));
  WriteAll(workspace_ / "a.gguf", fixtures::GgufBytes(file));
  EXPECT_EQ(workspace_.Moepack("list-tensors a.gguf").status, 0);
  const ToolRun checked = workspace_.Moepack("list-tensors a.gguf --check");
  EXPECT_NE(checked.status, 0);
  EXPECT_THAT(checked.out, HasSubstr("layer 2: block for multi-token prediction: expected one, as "
                                     "qwen3next.nextn_predict_layers announces 1, found none"));
  for (const std::string command :
       {"build a.gguf --groups 2 -o out", "quantize a.gguf --recipe BF16 -o b.gguf"}) {
    const ToolRun refused = workspace_.Moepack(command);
    EXPECT_EQ(refused.status, 3) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("a.gguf: block 2 for multi-token prediction"));
    const ToolRun repaired = workspace_.Moepack(command + " --no-mtp");
    EXPECT_EQ(repaired.status, 0) << repaired.err;
  }
  EXPECT_EQ(workspace_.Moepack("verify out --against a.gguf").status, 0);
  ASSERT_EQ(workspace_.Moepack("assemble out --group 0 -o node").status, 0);
  for (const std::string model : {"node", "b.gguf"})
    EXPECT_EQ(workspace_.Moepack("list-tensors " + model + " --check").status, 0) << model;
}

TEST_F(Gguf, StrictFailsOnAnAnnouncedBlockThatIsMissingWhereLlamaCppLoadsTheFile) {
  fixtures::GgufFile file = fixtures::MiniGguf("glm4moe", 2, 32);  // groups that are large enough
  file.pairs[1] = fixtures::GgufPairU32("glm4moe.block_count", 3);
  file.pairs.push_back(fixtures::GgufPairU32("glm4moe.nextn_predict_layers", 1));
  WriteAll(workspace_ / "a.gguf", fixtures::GgufBytes(file));
  const std::string build = "build a.gguf --groups 2 --no-verify --force -o out ";
  for (const std::string& command :
       {build, build + "--dry-run ", std::string("shard-experts a.gguf --groups 2 --force -o cut "),
        std::string("quantize a.gguf --recipe BF16 --force -o b.gguf ")}) {
    const ToolRun run = workspace_.Moepack(command);
    EXPECT_EQ(run.status, 0) << command << run.err;
    EXPECT_THAT(run.err, HasSubstr("warning: a.gguf: block 2 for multi-token prediction"))
        << command;
    EXPECT_EQ(workspace_.Moepack(command + "--strict").status, 6) << command;
    EXPECT_EQ(workspace_.Moepack(command + "--strict --no-mtp").status, 0) << command;
  }
}

}  // namespace
}  // namespace moepack::cli
