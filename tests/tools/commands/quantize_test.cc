#include <gmock/gmock.h>

#include "fixtures/generator.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

TEST(Quantize, NamesAConvertedModelByItsModelId) {
  const Workspace workspace;
  EXPECT_EQ(workspace
                .Moepack("quantize fixtures/tiny-moe --recipe Q8_0 --model-id own/Some-Name "
                         "-o a.gguf")
                .status,
            0);
  EXPECT_NE(ReadFile(workspace / "a.gguf").find("Some Name"), std::string::npos);
  EXPECT_EQ(workspace
                .Moepack("build fixtures/tiny-moe --groups 3 --quantize Q8_0 --model-id "
                         "own/Some-Name -o out --prove")
                .status,
            0);
  EXPECT_NE(ReadFile(workspace / "out/head/head.gguf").find("Some Name"), std::string::npos);
  const ToolRun run = workspace.Moepack("quantize out --recipe Q4_0 --model-id x -o out-2");
  EXPECT_EQ(run.status, 2);
}

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kTiny = "quantize fixtures/tiny-moe --recipe Q4_K_M -o ";

TEST(Quantize, WritesOneGgufThatCanBeASource) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(std::string(kTiny) + "q4.gguf");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("4.80 bits per weight"));
  const auto summary = workspace.Json("list-tensors q4.gguf --summary --json");
  EXPECT_EQ(summary["experts"], 16);
  EXPECT_EQ(summary["top_k"], 2);
}

TEST(Quantize, ADryRunWritesNothingAndPredictsTheSize) {
  const Workspace workspace;
  const std::string before = workspace.Listing();
  const auto dry = workspace.Json(std::string(kTiny) + "q4.gguf --dry-run --json");
  EXPECT_EQ(workspace.Listing(), before);
  const auto written = workspace.Json(std::string(kTiny) + "q4.gguf --json");
  EXPECT_EQ(dry["bytes"], written["bytes"]);
  EXPECT_EQ(dry["bits_per_weight"], written["bits_per_weight"]);
  EXPECT_EQ(fs::file_size(workspace / "q4.gguf"), written["bytes"]);
}

TEST(Quantize, AnyNumberOfThreadsGivesTheSameFile) {
  const Workspace workspace;
  std::string first;
  for (const char* jobs : {"1", "2", "8"}) {
    const std::string name = std::string("q") + jobs + ".gguf";
    EXPECT_EQ(workspace.Moepack(kTiny + name + " --jobs " + jobs + " --memory 2M").status, 0);
    const std::string bytes = ReadFile(workspace / name);
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << jobs;
  }
}

TEST(Quantize, WritesASplitSetThatAnyPartOpens) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(std::string(kTiny) + "set/q4.gguf --max-part-size 2M");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("4 files, the first is set/q4-00001-of-00004.gguf"));
  EXPECT_FALSE(fs::exists(workspace / "set/q4.gguf"));
  const auto summary = workspace.Json("list-tensors set/q4-00002-of-00004.gguf --summary --json");
  EXPECT_EQ(summary["experts"], 16);
}

TEST(Quantize, AnExistingFileIsKeptUnlessForced) {
  const Workspace workspace;
  WriteAll(workspace / "q4.gguf", "mine");
  const ToolRun run = workspace.Moepack(std::string(kTiny) + "q4.gguf");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("error: q4.gguf already exists"));
  EXPECT_EQ(ReadFile(workspace / "q4.gguf"), "mine");
  EXPECT_EQ(workspace.Moepack(std::string(kTiny) + "q4.gguf --force").status, 0);
  EXPECT_NE(ReadFile(workspace / "q4.gguf"), "mine");
}

TEST(Quantize, AnInputIsNeverOverwritten) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack(std::string(kTiny) + "q4.gguf").status, 0);
  const std::string before = ReadFile(workspace / "q4.gguf");
  const ToolRun run =
      workspace.Moepack("quantize q4.gguf --recipe Q8_0 --allow-requantize --force -o q4.gguf");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr(" is also an input"));
  EXPECT_TRUE(ReadFile(workspace / "q4.gguf") == before);
}

TEST(Quantize, TheOutputNameMustBeOneThatLoadersAccept) {
  const Workspace workspace;
  for (const char* name : {"model.bin", ".gguf", "m-00001-of-00002.gguf"}) {
    const ToolRun run = workspace.Moepack(std::string(kTiny) + name);
    EXPECT_EQ(run.status, 2) << name;
    EXPECT_THAT(run.err, HasSubstr("expected a file name that ends in .gguf"));
  }
}

TEST(Quantize, AQuantizedSourceNeedsPermission) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack(std::string(kTiny) + "q4.gguf").status, 0);
  const ToolRun refused = workspace.Moepack("quantize q4.gguf --recipe Q8_0 -o q8.gguf");
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, HasSubstr("--allow-requantize"));
  EXPECT_EQ(
      workspace.Moepack("quantize q4.gguf --recipe Q8_0 --allow-requantize -o q8.gguf").status, 0);
}

TEST(Quantize, FamiliesWithoutAConverterAreRefusedWithWhatToDoInstead) {
  const Workspace workspace;
  fixtures::Options options;
  ASSERT_TRUE(fixtures::MakeCheckpoint("jamba", workspace / "jamba", options));
  const ToolRun run = workspace.Moepack("quantize jamba --recipe BF16 -o o.gguf");
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr(", found \"jamba\""));
  EXPECT_THAT(run.err, HasSubstr("--format safetensors"));
}

TEST(Quantize, ARuleThatMatchesNothingIsAnError) {
  const ToolRun run =
      Workspace().Moepack(std::string(kTiny) + "q4.gguf --tensor-type ffn_dwon=q6_K");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("ffn_dwon=q6_K"));
}

TEST(Quantize, ReadsRulesFromAFile) {
  const Workspace workspace;
  WriteAll(workspace / "rules.txt", "# more bits where it matters\nffn_down_exps=q6_K\n");
  const ToolRun run =
      workspace.Moepack(std::string(kTiny) + "q4.gguf --tensor-type-file rules.txt");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(workspace.Moepack("list-tensors q4.gguf").out, HasSubstr("q6_K"));
}

TEST(Quantize, ValuesThatAreNotFiniteAreCountedByTensor) {
  const Workspace workspace;
  fs::copy(workspace / "fixtures/tiny-moe", workspace / "nan");
  const fs::path shard = workspace / "nan/model-00001-of-00003.safetensors";
  fs::permissions(shard, fs::perms::owner_write, fs::perm_options::add);
  std::string bytes = ReadFile(shard);
  bytes.replace(bytes.size() - 4, 4, "\xC0\x7F\x80\x7F");  // NaN and infinity as BF16
  WriteAll(shard, bytes);
  for (const std::string recipe : {"Q8_0", "BF16"}) {  // encoded, copied
    const ToolRun run =
        workspace.Moepack("quantize nan --recipe " + recipe + " -o nan-" + recipe + ".gguf");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("expected finite values, found NaN or infinity 2 times"));
  }
}

TEST(Quantize, RequantizesADistribution) {
  const Workspace workspace;
  EXPECT_EQ(workspace
                .Moepack("build fixtures/tiny-moe --groups 3 --format gguf --overlay-file "
                         "fixtures/tiny-overlay.json --no-verify -o bf16")
                .status,
            0);
  const ToolRun run = workspace.Moepack("quantize bf16 --recipe Q4_K_M -o q4");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(workspace.Moepack("verify q4 --against fixtures/tiny-moe").status, 0);
  EXPECT_EQ(workspace
                .Moepack("build fixtures/tiny-moe --groups 3 --quantize Q4_K_M --overlay-file "
                         "fixtures/tiny-overlay.json --no-verify -o direct")
                .status,
            0);
  for (const char* file : {"trunk/trunk.gguf", "groups/001/experts.gguf"}) {
    EXPECT_TRUE(ReadFile(workspace / "q4" / file) == ReadFile(workspace / "direct" / file)) << file;
  }
}

TEST(Quantize, ASafetensorsDistributionIsRefused) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 2 --no-verify -o out").status, 0);
  const ToolRun run = workspace.Moepack("quantize out --recipe Q4_K_M -o q4");
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr("expected GGUF bundles, found safetensors bundles"));
  EXPECT_THAT(run.err, HasSubstr("`moepack build SRC --plan out --recipe Q4_K_M -o OUT`"));
  const ToolRun named =
      workspace.Moepack("build fixtures/tiny-moe --plan out --recipe Q4_K_M -o q4 --no-verify");
  EXPECT_EQ(named.status, 0) << named.err;
}

TEST(Quantize, PartsWithSeveralTensorsStayBelowTheLimit) {
  const Workspace workspace;
  const auto written = workspace.Json(std::string(kTiny) + "q4.gguf --max-part-size 600k --json");
  ASSERT_GT(written["files"].size(), 4u);
  for (const auto& file : written["files"]) {
    if (file["tensors"] == 1) continue;
    EXPECT_LE(file["bytes"], 600'000) << file["file"];
  }
}

TEST(Quantize, ExpressionsWithExcessiveBacktrackingFailFast) {
  const ToolRun run = Workspace().Moepack(
      std::string(kTiny) + "q4.gguf --dry-run --tensor-type '(.*)*(.*)*(.*)*x=q8_0'");
  EXPECT_EQ(run.status, 0) << "the expression matches names with an x: " << run.err;
}

TEST(Quantize, RefusesADirectoryAsOutput) {
  const Workspace workspace;
  fs::create_directory(workspace / "d.gguf");
  const ToolRun run = workspace.Moepack(std::string(kTiny) + "d.gguf --force");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr(" is a directory"));
}

TEST(Quantize, TreatsAMissingNormTopkProbAsFalse) {
  const Workspace workspace;
  fs::copy(workspace / "fixtures/tiny-moe", workspace / "model");
  const fs::path path = workspace / "model/config.json";
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  auto config = nlohmann::json::parse(ReadFile(path));
  config.erase("norm_topk_prob");
  WriteAll(path, config.dump());
  const ToolRun run = workspace.Moepack("quantize model --recipe BF16 -o m.gguf");
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr("norm_topk_prob: expected true"));
}

TEST(Quantize, ATokenizerWithoutMergesIsRefused) {
  const Workspace workspace;
  fs::copy(workspace / "fixtures/tiny-moe", workspace / "model");
  const fs::path path = workspace / "model/tokenizer.json";
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  auto tokenizer = nlohmann::json::parse(ReadFile(path));
  tokenizer["model"].erase("merges");
  WriteAll(path, tokenizer.dump());
  const ToolRun run = workspace.Moepack("quantize model --recipe BF16 -o m.gguf");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("model.merges: expected the merges"));
}

TEST(Quantize, AConfigThatContradictsTheTensorsIsRefused) {
  const Workspace workspace;
  fs::copy(workspace / "fixtures/tiny-moe", workspace / "model");
  const fs::path path = workspace / "model/config.json";
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  const auto good = nlohmann::json::parse(ReadFile(path));
  const std::vector<std::pair<std::string, nlohmann::json>> lies = {
      {"head_dim", 32},           {"num_key_value_heads", 0},     {"num_key_value_heads", 3},
      {"num_key_value_heads", 4}, {"moe_intermediate_size", 128}, {"rms_norm_eps", -1.0},
      {"num_experts_per_tok", 0}, {"max_position_embeddings", 0}};
  for (const auto& [field, value] : lies) {
    auto config = good;
    config[field] = value;
    WriteAll(path, config.dump());
    const ToolRun run = workspace.Moepack("quantize model --recipe BF16 --dry-run -o m.gguf");
    EXPECT_EQ(run.status, 3) << field << ": " << run.err;
    EXPECT_THAT(run.err, HasSubstr("model/config.json")) << field;
  }
}

TEST(Quantize, ACheckpointThatContradictsItsConfigLeavesNothingBehind) {
  const Workspace workspace;
  fs::copy(workspace / "fixtures/tiny-moe", workspace / "model");
  const fs::path path = workspace / "model/config.json";
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  auto config = nlohmann::json::parse(ReadFile(path));
  config["num_hidden_layers"] = 4;
  WriteAll(path, config.dump());
  const auto files = [&] {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(workspace.path())) count += entry.exists();
    return count;
  };
  const size_t before = files();
  for (const char* command :
       {"quantize model --recipe Q4_0 -o m.gguf",
        "build model --groups 2 --quantize Q4_0 -o out --keep-partial",
        "build model --groups 2 -o out --keep-partial", "shard-experts model --groups 2 -o out"}) {
    const ToolRun run = workspace.Moepack(command);
    EXPECT_EQ(run.status, 3) << command << run.err;
    EXPECT_THAT(run.err, HasSubstr("model/config.json: missing: layer 3: all tensors: expected 4 "
                                   "layers (num_hidden_layers), found 3\n"
                                   "hint: `moepack list-tensors model --check` names"));
    EXPECT_EQ(files(), before) << command;
  }
}

}  // namespace
}  // namespace moepack::cli
