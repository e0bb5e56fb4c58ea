#include <gmock/gmock.h>

#include <algorithm>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

TEST(ListTensors, ListsEveryTensorOnItsOwnLine) {
  const ToolRun run = Workspace().Moepack("list-tensors fixtures/tiny-moe");
  EXPECT_EQ(run.status, 0);
  // A heading, 174 tensors, an empty line, the totals.
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 177);
  EXPECT_THAT(run.out, HasSubstr("174 tensors, 21.1 MB (21,131,520 bytes)"));
}

TEST(ListTensors, JsonHasTheDocumentedMembers) {
  const auto json =
      Workspace().Json("list-tensors fixtures/tiny-moe --json --regex 'experts.7.up'");
  EXPECT_EQ(json["family"], "qwen3-moe");
  ASSERT_EQ(json["tensors"].size(), 3u);
  const auto& tensor = json["tensors"][1];
  EXPECT_EQ(tensor["name"], "model.layers.1.mlp.experts.7.up_proj.weight");
  EXPECT_EQ(tensor["dtype"], "BF16");
  EXPECT_EQ(tensor["shape"], nlohmann::json::array({256, 256}));
  EXPECT_EQ(tensor["bytes"], 131072);
  EXPECT_EQ(tensor["part"], "expert");
  EXPECT_EQ(tensor["layer"], 1);
  EXPECT_EQ(tensor["expert"], 7);
  EXPECT_EQ(tensor["role"], "up");
}

TEST(ListTensors, ListsTensorsThatPassEveryFilter) {
  const Workspace workspace;
  const auto count = [&](const std::string& filters) {
    return workspace.Json("list-tensors fixtures/tiny-moe --json " + filters)["tensors"].size();
  };
  EXPECT_EQ(count("--part expert"), 144u);
  EXPECT_EQ(count("--part router --part expert"), 147u);
  EXPECT_EQ(count("--part expert --layer 0,2 --expert 1-3"), 18u);
  EXPECT_EQ(count("--layer 7"), 0u);
  EXPECT_EQ(count("--regex '^lm_head'"), 1u);
}

TEST(ListTensors, SummaryShowsTheModelAndTheSizeOfANode) {
  const ToolRun run = Workspace().Moepack("list-tensors fixtures/tiny-moe --summary");
  EXPECT_EQ(run.status, 0);
  for (const char* text : {"qwen3-moe, Qwen3MoeForCausalLM", "3 MoE layers", "16 per layer, top-2",
                           "10.6M total, 2.3M active (11M-A2.3M, 2.3M-16E)", "18,874,368"}) {
    EXPECT_THAT(run.out, HasSubstr(text));
  }
}

TEST(ListTensors, SummaryNamesTheNumberOfGroupsThatIsImpossible) {
  const Workspace workspace;
  const ToolRun run =
      workspace.Moepack("list-tensors fixtures/tiny-moe --summary --groups 1,3,16,17");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("error: --groups 16: plan: group 0: layer 0: eligible experts: "));
}

TEST(ListTensors, SummaryAsJsonAddsUp) {
  const auto json = Workspace().Json("list-tensors fixtures/tiny-moe --summary --json");
  EXPECT_EQ(json["experts"], 16);
  EXPECT_EQ(json["moe_layers"].size(), 3u);
  uint64_t bytes = 0;
  for (const auto& part : json["parts"]) bytes += part["bytes"].get<uint64_t>();
  EXPECT_EQ(bytes, 21131520u);
  // Two groups: the trunk and half of the experts, and the headers of their files.
  ASSERT_GE(json["node_sizes"].size(), 2u);
  const uint64_t tensors = 2257152 + 18874368 / 2;
  const uint64_t source = json["node_sizes"][0]["bytes"]["source"];
  EXPECT_GT(source, tensors);
  EXPECT_LT(source, tensors + (1u << 16));
}

TEST(ListTensors, AnIndexAloneGivesNamesWithoutSizes) {
  const Workspace workspace;
  const auto source = workspace / "fixtures/tiny-moe";
  std::filesystem::create_directories(workspace / "index");
  for (const char* name : {"model.safetensors.index.json", "config.json"}) {
    std::filesystem::copy(source / name, workspace / "index");
  }
  const std::string index = "index/model.safetensors.index.json";
  const ToolRun run = workspace.Moepack("list-tensors " + index + " --part router");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("model.layers.0.mlp.gate.weight  -      -          -"));
  const auto json = workspace.Json("list-tensors " + index + " --json --part router");
  EXPECT_FALSE(json["tensors"][0].contains("bytes"));
  EXPECT_THAT(workspace.Moepack("list-tensors " + index + " --summary").out, HasSubstr("unknown"));
}

TEST(ListTensors, BadFiltersAreUsageErrorsThatNameTheOption) {
  const Workspace workspace;
  for (const std::string option : {"--regex '['", "--layer 3-1", "--expert x", "--part none"}) {
    const ToolRun run = workspace.Moepack("list-tensors fixtures/tiny-moe " + option);
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr(option.substr(0, option.find(' '))));
  }
}

// Changes fields in the copy of tiny-moe's config.
void SetInConfig(const Workspace& workspace, const char* field, const nlohmann::json& value) {
  const auto path = workspace / "fixtures/tiny-moe/config.json";
  std::filesystem::permissions(path, std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  auto config = nlohmann::json::parse(ReadFile(path));
  config[field] = value;
  WriteAll(path, config.dump());
}

TEST(ListTensors, CheckReportsThatTheTensorsMatchTheConfig) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack("list-tensors fixtures/tiny-moe --check");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, "ok: 174 tensors, 3 layers, 16 experts as config.json says\n");
  const std::string index = "model.safetensors.index.json";
  for (const std::string& file : {index, std::string("config.json")}) {
    WriteAll(workspace / ("names/" + file), ReadFile(workspace / ("fixtures/tiny-moe/" + file)));
  }
  const ToolRun names = workspace.Moepack("list-tensors names/" + index + " --check");
  EXPECT_EQ(names.status, 0);
  EXPECT_EQ(names.out,
            "ok: 174 tensors, 3 layers, 16 experts as config.json says (names only: shapes "
            "unchecked)\n");
  ASSERT_EQ(workspace.Moepack("quantize fixtures/tiny-moe --recipe Q4_0 -o m.gguf").status, 0);
  const ToolRun gguf = workspace.Moepack("list-tensors m.gguf --check");
  EXPECT_EQ(gguf.status, 0) << gguf.err;
  EXPECT_EQ(gguf.out, "ok: 39 tensors, 3 layers, 16 experts as m.gguf says\n");
}

TEST(ListTensors, CheckNamesEveryFindingAndFails) {
  const Workspace workspace;
  SetInConfig(workspace, "num_hidden_layers", 4);
  SetInConfig(workspace, "moe_intermediate_size", 250);
  const ToolRun run = workspace.Moepack("list-tensors fixtures/tiny-moe --check");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out,
            "missing: layer 3: all tensors: expected 4 layers (num_hidden_layers), found 3\n"
            "misshapen: tensor \"model.layers.0.mlp.experts.0.down_proj.weight\" and 47 like it: "
            "expected [256, 250] (width of an expert and hidden size), found [256, 256]\n"
            "misshapen: tensor \"model.layers.0.mlp.experts.0.gate_proj.weight\" and 47 like it: "
            "expected [250, 256] (width of an expert and hidden size), found [256, 256]\n"
            "misshapen: tensor \"model.layers.0.mlp.experts.0.up_proj.weight\" and 47 like it: "
            "expected [250, 256] (width of an expert and hidden size), found [256, 256]\n"
            "\n4 findings\n");
}

TEST(ListTensors, CheckAsJsonHasTheDocumentedMembers) {
  const Workspace workspace;
  const auto good = workspace.Json("list-tensors fixtures/tiny-moe --check --json");
  EXPECT_EQ(good["ok"], true);
  EXPECT_EQ(good["family"], "qwen3-moe");
  EXPECT_EQ(good["tensors"], 174);
  EXPECT_EQ(good["layers"], 3);
  EXPECT_EQ(good["experts"], 16);
  EXPECT_EQ(good["shapes_checked"], true);
  EXPECT_TRUE(good["findings"].empty());
  SetInConfig(workspace, "vocab_size", 1);
  const ToolRun run = workspace.Moepack("list-tensors fixtures/tiny-moe --check --json");
  EXPECT_EQ(run.status, 3);
  const auto bad = nlohmann::json::parse(run.out);
  EXPECT_EQ(bad["ok"], false);
  ASSERT_GE(bad["findings"].size(), 1u);
  EXPECT_EQ(bad["findings"][0]["kind"], "misshapen");
  EXPECT_EQ(bad["findings"][0]["what"], "tensor \"model.embed_tokens.weight\"");
  EXPECT_EQ(bad["findings"][0]["expected"], "[1, 256] (vocab_size, hidden_size)");
}

TEST(ListTensors, CheckCannotBeCombinedWithOtherOptions) {
  const Workspace workspace;
  const std::pair<std::string, std::string> rows[] = {{"--summary", "--summary and --check"},
                                                      {"--layer 0", "--check and --layer"},
                                                      {"--part router", "--check and --part"}};
  for (const auto& [other, both] : rows) {
    const ToolRun run = workspace.Moepack("list-tensors fixtures/tiny-moe --check " + other);
    EXPECT_EQ(run.status, 2) << other;
    EXPECT_EQ(run.out, "") << other;
    EXPECT_THAT(run.err,
                testing::HasSubstr("list-tensors: " + both + " cannot be used together\n"));
  }
}

}  // namespace
}  // namespace moepack::cli
