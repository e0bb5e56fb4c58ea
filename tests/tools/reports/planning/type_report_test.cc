#include "tools/reports/planning/type_report.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "fixtures/generator.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using Json = nlohmann::json;

std::map<std::string, Json> ByName(const Json& tensors) {
  std::map<std::string, Json> by_name;
  for (const Json& tensor : tensors) by_name[tensor["name"]] = tensor;
  return by_name;
}

std::map<std::string, Json> TypesOf(const Workspace& workspace, const std::string& options) {
  return ByName(workspace.Json("quantize fixtures/tiny-moe --dry-run --tensors --json -o t.gguf " +
                               options)["tensors"]);
}

TEST(TypeReport, NamesTheRuleThatChoseEachTensor) {
  const Workspace workspace;
  const auto types = TypesOf(workspace,
                             "--recipe Q4_K_M --tensor-type ffn_gate_exps=q5_K "
                             "--output-tensor-type q8_0");
  const auto rule = [&](const std::string& name) {
    const Json& tensor = types.at(name);
    return tensor["rule"].get<std::string>() + " | " +
           (tensor["detail"].is_null() ? "" : tensor["detail"].get<std::string>());
  };
  EXPECT_EQ(rule("blk.0.attn_norm.weight"), "keeps its type | F32 by conversion");
  EXPECT_EQ(rule("blk.0.ffn_gate_inp.weight"), "keeps its type | F32 by conversion");
  EXPECT_EQ(rule("blk.0.ffn_gate_exps.weight"), "--tensor-type | ffn_gate_exps=q5_K");
  EXPECT_EQ(rule("output.weight"), "--output-tensor-type | ");
  EXPECT_EQ(rule("blk.2.ffn_down_exps.weight"), "recipe Q4_K_M | down: another type");
  EXPECT_EQ(rule("blk.0.ffn_up_exps.weight"), "recipe Q4_K_M | gate, up: base type");
  EXPECT_EQ(types.at("blk.0.ffn_gate_exps.weight")["type"], "q5_K");
  EXPECT_EQ(types.at("blk.2.ffn_down_exps.weight")["type"], "q6_K");
}

TEST(TypeReport, NamesOverridesByPartAndProfilesAndPureTypes) {
  const Workspace workspace;
  const auto parts = TypesOf(workspace, "--recipe balanced --trunk-type q6_K");
  EXPECT_EQ(parts.at("blk.0.attn_q.weight")["rule"], "--trunk-type");
  EXPECT_EQ(parts.at("blk.0.ffn_down_exps.weight")["rule"], "profile balanced");
  EXPECT_EQ(parts.at("blk.0.ffn_down_exps.weight")["detail"], "down");
  const auto pure = TypesOf(workspace, "--pure q4_0 --experts-type q8_0");
  EXPECT_EQ(pure.at("blk.0.attn_q.weight")["rule"], "--pure");
  EXPECT_EQ(pure.at("blk.0.ffn_down_exps.weight")["rule"], "--experts-type");
}

TEST(TypeReport, NamesRowsThatForcedAnotherType) {
  const Workspace workspace;
  const fixtures::Options options = {.hidden = 256, .ff = 96};
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", workspace / "odd", options));
  const std::string command = "quantize odd --recipe Q6_K --dry-run --tensors -o t.gguf";
  const auto types = ByName(workspace.Json(command + " --json")["tensors"]);
  const Json& down = types.at("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(down["wanted"], "q6_K");
  EXPECT_EQ(down["type"], "q8_0");
  EXPECT_EQ(down["fallback"], "rows of 96 values, q6_K needs a multiple of 256");
  EXPECT_EQ(types.at("blk.0.ffn_up_exps.weight")["fallback"], nullptr);
  EXPECT_THAT(workspace.Moepack(command).out,
              HasSubstr("recipe Q6_K (down: base type), then fallback from q6_K (rows of 96 "));
}

TEST(TypeReport, TheTableHasALinePerTensorAndAddsUp) {
  const Workspace workspace;
  const std::string command =
      "quantize fixtures/tiny-moe --recipe Q4_K_M --dry-run --tensors -o t.gguf";
  const ToolRun run = workspace.Moepack(command);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, ContainsRegex("name +part +shape +source +type +bytes +rule"));
  EXPECT_THAT(run.out, ContainsRegex("blk.2.ffn_down_exps.weight +expert +\\[.*\\] +bf16 +q6_K"));
  const Json document = workspace.Json(command + " --json");
  uint64_t bytes = 0, parts = 0;
  for (const Json& tensor : document["tensors"]) bytes += tensor["bytes"].get<uint64_t>();
  for (const Json& part : document["parts"]) parts += part["bytes"].get<uint64_t>();
  EXPECT_EQ(bytes, parts);
}

TEST(TypeReport, BuildPrintsTheSameListForGgufBundles) {
  const Workspace workspace;
  const std::string build = "build fixtures/tiny-moe --groups 2 --dry-run --tensors -o out ";
  const auto types = workspace.Json(build + "--quantize Q4_K_M --json")["tensors"];
  const auto same = workspace.Json(
      "quantize fixtures/tiny-moe --recipe Q4_K_M --dry-run --tensors --json -o t.gguf")["tensors"];
  EXPECT_EQ(types, same);
  EXPECT_THAT(workspace.Moepack(build + "--quantize Q4_K_M").out, HasSubstr("recipe Q4_K_M (down"));
  const ToolRun plain = workspace.Moepack(build);
  EXPECT_EQ(plain.status, 2);
  EXPECT_THAT(plain.err, HasSubstr("--tensors has no effect on safetensors bundles"));
}

TEST(TypeReport, IsPartOnlyOfADryRun) {
  const Workspace workspace;
  for (const char* command : {"quantize fixtures/tiny-moe --recipe Q8_0 --tensors -o t.gguf",
                              "build fixtures/tiny-moe --groups 2 --tensors -o out"}) {
    const ToolRun run = workspace.Moepack(command);
    EXPECT_EQ(run.status, 2) << command;
    EXPECT_THAT(run.err, HasSubstr("--dry-run"));
  }
}

// A reader of the rule can find it in the document.
TEST(TypeReport, EveryRuleIsInTheQuantizationDocument) {
  const Workspace workspace;
  const std::string page = ReadFile(MOEPACK_SOURCE_DIR "/docs/quantization.md");
  std::set<std::string> rules;
  for (const char* options : {"--recipe Q4_K_M --tensor-type ffn_gate_exps=q5_K",
                              "--recipe compact --trunk-type q8_0", "--pure q8_0"}) {
    for (const auto& [name, tensor] : TypesOf(workspace, options)) {
      std::string rule = tensor["rule"];
      for (const char* kind : {"recipe ", "profile "}) {
        if (rule.starts_with(kind)) rule = std::string(kind) + "NAME";
      }
      rules.insert(rule);
    }
  }
  EXPECT_EQ(rules.size(), 6u);
  for (const std::string& rule : rules) EXPECT_THAT(page, HasSubstr("`" + rule + "`"));
}

}  // namespace
}  // namespace moepack::cli
