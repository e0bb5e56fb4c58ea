#include "tools/reports/planning/model_summary.h"

#include <gmock/gmock.h>

#include "fixtures/generator.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// The config of a generated layout, alone in a directory.
void WriteConfig(const Workspace& workspace, const std::string& layout, const std::string& folder) {
  WriteAll(workspace / (folder + "/config.json"), fixtures::DescribeCheckpoint(layout).config);
}

TEST(ModelSummary, ShowsActiveParametersWithAndWithoutTables) {
  const Workspace workspace;
  const fixtures::Options options = {.hidden = 128, .vocabulary = 20'000};
  ASSERT_TRUE(fixtures::MakeCheckpoint("deepseek-v3", workspace / "v3", options));
  const auto counts = workspace.Json("list-tensors v3 --summary --json")["parameters"];
  constexpr uint64_t kTable = 20'000 * 128;
  EXPECT_EQ(counts["active_without_embedding"], counts["active"].get<uint64_t>() - kTable);
  EXPECT_EQ(counts["active_without_embedding_and_head"],
            counts["active"].get<uint64_t>() - 2 * kTable);
  EXPECT_EQ(counts["active_as_cards_count"], counts["active_without_embedding"]);
  EXPECT_THAT(workspace.Moepack("list-tensors v3 --summary").out,
              HasSubstr("active, 2.9M without the input embedding as the cards of this family"));
}

TEST(ModelSummary, AConfigAloneSaysThatNoTensorsWereSeen) {
  const Workspace workspace;
  fs::create_directories(workspace / "alone");
  fs::copy(workspace / "fixtures/tiny-moe/config.json", workspace / "alone");
  const ToolRun whole = workspace.Moepack("list-tensors fixtures/tiny-moe --summary");
  for (const char* source : {"alone", "alone/config.json"}) {
    const ToolRun run = workspace.Moepack(std::string("list-tensors ") + source + " --summary");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("none: no tensors were seen, sizes are what config.json "
                                   "promises of weights in BF16"));
    EXPECT_THAT(run.out, Not(HasSubstr("not counted")));
    const std::string parts = whole.out.substr(whole.out.find("part "), 300);
    EXPECT_THAT(run.out, HasSubstr(parts.substr(0, parts.find("size of")))) << source;
  }
}

TEST(ModelSummary, AConfigAloneGivesTheNodesOfItsCheckpoint) {
  const Workspace workspace;
  fs::create_directories(workspace / "alone");
  fs::copy(workspace / "fixtures/tiny-moe/config.json", workspace / "alone");
  const std::string options = " --summary --json --groups 3 --quantize Q4_K_M";
  const auto without = workspace.Json("list-tensors alone" + options);
  EXPECT_THAT(without["node_size_notes"].dump(), HasSubstr("without the tokenizer"));
  // With the tokenizer beside it, the sizes match the checkpoint to the byte.
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    if (!fs::exists(workspace / "fixtures/tiny-moe" / file)) continue;
    fs::copy(workspace / "fixtures/tiny-moe" / file, workspace / "alone");
  }
  const auto alone = workspace.Json("list-tensors alone" + options);
  const auto whole = workspace.Json("list-tensors fixtures/tiny-moe" + options);
  EXPECT_EQ(alone["node_sizes"][0]["bytes"]["Q4_K_M"], whole["node_sizes"][0]["bytes"]["Q4_K_M"]);
  EXPECT_EQ(alone["parameters"], whole["parameters"]);
}

TEST(ModelSummary, AConfigAloneListsTensorsOfUnknownSize) {
  const Workspace workspace;
  WriteConfig(workspace, "jamba", "jamba");
  const auto summary = workspace.Json("list-tensors jamba --summary --json");
  EXPECT_THAT(summary["promised"]["not_counted"].dump(), HasSubstr("attention of layers"));
  EXPECT_GT(summary["parameters"]["total"], 0);
  EXPECT_THAT(workspace.Moepack("list-tensors jamba --summary").out, HasSubstr("not counted"));
}

TEST(ModelSummary, AConfigAloneIsEnoughOnlyForTheSummary) {
  const Workspace workspace;
  WriteConfig(workspace, "qwen3-moe", "alone");
  for (const char* options : {"", " --check", " --json"}) {
    const ToolRun run = workspace.Moepack(std::string("list-tensors alone") + options);
    EXPECT_EQ(run.status, 5) << options;
    EXPECT_THAT(run.err, HasSubstr("a config is enough for list-tensors --summary"));
  }
}

TEST(ModelSummary, AConfigThatPromisesTooMuchIsRefusedAtOnce) {
  const Workspace workspace;
  WriteConfig(workspace, "qwen3-moe", "huge");
  const std::string config = ReadFile(workspace / "huge/config.json");
  struct Case {
    const char* field;
    uint64_t value;
  };
  for (const Case& huge : {Case{"num_hidden_layers", 1u << 20},
                           {"num_experts", 65'536},
                           {"hidden_size", 4'000'000'000},
                           {"moe_intermediate_size", 0}}) {
    auto bent = nlohmann::json::parse(config);
    bent[huge.field] = huge.value;
    if (std::string(huge.field) == "num_experts") bent["num_hidden_layers"] = 4096;
    WriteAll(workspace / "huge/config.json", bent.dump());
    const ToolRun run = workspace.Moepack("list-tensors huge --summary");
    EXPECT_THAT(run.status, testing::AnyOf(3, 4)) << huge.field << run.err;
    EXPECT_THAT(run.err, HasSubstr("config.json"));
  }
}

// What `hf download --include "*.json"` leaves.
TEST(ModelSummary, AConfigAndAnIndexWithoutItsFilesAreEnough) {
  const Workspace workspace;
  fs::create_directories(workspace / "json");
  for (const char* file : {"config.json", "model.safetensors.index.json"})
    fs::copy(workspace / "fixtures/tiny-moe" / file, workspace / "json");
  const ToolRun summary = workspace.Moepack("list-tensors json --summary");
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_THAT(summary.err, HasSubstr("json/model.safetensors.index.json: none of the files that it "
                                     "names is there; sizes are what config.json promises"));
  EXPECT_THAT(summary.out, HasSubstr("promises of weights in BF16"));
  const ToolRun names = workspace.Moepack("list-tensors json");
  EXPECT_EQ(names.status, 0) << names.err;
  EXPECT_THAT(names.err, HasSubstr("names come from the index"));
  EXPECT_THAT(names.out, HasSubstr("lm_head.weight"));
  const ToolRun plan = workspace.Moepack("plan json --groups 2 -o plan.json");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("the plan is made from its names"));
  // With one of the files there, a download was cut short.
  fs::copy(workspace / "fixtures/tiny-moe/model-00002-of-00003.safetensors", workspace / "json");
  const ToolRun partly = workspace.Moepack("list-tensors json --summary");
  EXPECT_EQ(partly.status, 5);
  EXPECT_THAT(partly.err, HasSubstr("finish the download"));
}

TEST(ModelSummary, ModelOptsOwnFileSaysThatWeightsAreQuantized) {
  const Workspace workspace;
  WriteConfig(workspace, "qwen3-moe", "nvfp4");
  WriteAll(workspace / "nvfp4/hf_quant_config.json",
           R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}})");
  for (const char* source : {"nvfp4", "nvfp4/config.json"}) {
    const ToolRun run = workspace.Moepack(std::string("list-tensors ") + source + " --summary");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("and not of the quantized ones that the checkpoint has (NVFP4, "
                                   "says hf_quant_config.json)"));
  }
  WriteAll(workspace / "nvfp4/hf_quant_config.json", R"({"quantization": {"quant_algo": 4}})");
  const ToolRun broken = workspace.Moepack("list-tensors nvfp4 --summary");
  EXPECT_EQ(broken.status, 3);
  EXPECT_THAT(broken.err, HasSubstr("hf_quant_config.json: quantization.quant_algo: expected a "
                                    "text, found 4"));
}

TEST(ModelSummary, AConfigThatGivesExpertsATypeOfTheirOwnSaysSo) {
  const Workspace workspace;
  WriteConfig(workspace, "deepseek-v4", "v4");
  auto config = nlohmann::json::parse(ReadFile(workspace / "v4/config.json"));
  config["expert_dtype"] = "fp4";
  WriteAll(workspace / "v4/config.json", config.dump());
  EXPECT_THAT(workspace.Moepack("list-tensors v4 --summary").out, HasSubstr("(experts in fp4)"));
}

TEST(ModelSummary, CountsThatLackTensorsSayAtLeast) {
  const Workspace workspace;
  WriteConfig(workspace, "nemotron-3", "partial");
  const ToolRun run = workspace.Moepack("list-tensors partial --summary");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::ContainsRegex("parameters +at least .* total, at least .* active "
                                              "\\(at least "));
  EXPECT_THAT(run.out, HasSubstr("moepack does not work out their sizes from config.json"));
  EXPECT_THAT(run.out, HasSubstr("note: no sizes by recipe: partial/config.json: expected a config "
                                 "from which moepack works out all tensors, found one of family "
                                 "nemotron-h, for which it knows only some"));
  WriteConfig(workspace, "qwen3-moe", "whole");
  EXPECT_THAT(workspace.Moepack("list-tensors whole --summary").out, Not(HasSubstr("at least")));
}

TEST(ModelSummary, TheSelectionBiasOfErnieIsPromisedAsTheRowThatItIs) {
  const Workspace workspace;
  WriteConfig(workspace, "ernie-4.5", "ernie");
  const auto summary = workspace.Json("list-tensors ernie --summary --json");
  EXPECT_EQ(summary["promised"]["not_counted"], nlohmann::json::array());
  EXPECT_THAT(summary["node_size_notes"].dump(), Not(HasSubstr("no sizes by recipe")));
}

}  // namespace
}  // namespace moepack::cli
