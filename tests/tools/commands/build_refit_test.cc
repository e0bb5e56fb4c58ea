// From a refit to a distribution: refit -o, build --refit, --refit-store.
#include <gmock/gmock.h>

#include "fixtures/generator.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kTexts =
    " --text fixtures/texts/manual.md --most-tokens 300 --context 64 --least-tokens 20 --updates 4";
// For tests where the result of the refit does not matter.
constexpr const char* kFewSteps =
    " --text fixtures/texts/manual.md --context 128 --least-tokens 20 --steps router";

TEST(BuildRefit, RefitsSplitsQuantizesAndVerifies) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(
      std::string("build fixtures/tiny-moe --groups 2 --quantize Q4_K_M --prove --refit -o out") +
      kTexts);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("layer 0, group 0: error "));
  EXPECT_THAT(run.out, HasSubstr("verification passed: "));
  EXPECT_TRUE(std::filesystem::exists(workspace / "out.refit/refit.json"));
  const std::string manifest = ReadFile(workspace / "out/distribution.json");
  EXPECT_THAT(manifest, HasSubstr("\"format_version\": \"1.2\""));
  EXPECT_THAT(manifest, HasSubstr("\"derived\": "));
  // It was quantized with the statistics of the refit, and a verifier needs the same.
  EXPECT_TRUE(std::filesystem::exists(workspace / "out.refit/imatrix.gguf"));
  EXPECT_THAT(manifest, HasSubstr("\"imatrix\": "));
  EXPECT_THAT(run.err, HasSubstr("imatrix.gguf: data for "));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("entries name no tensor")));
  EXPECT_THAT(run.out, HasSubstr("--imatrix out.refit/imatrix.gguf"));
  const ToolRun without = workspace.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_NE(without.status, 0);
  EXPECT_THAT(without.err, HasSubstr("expected the importance matrix of the recipe"));
  const ToolRun check = workspace.Moepack("check out");
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("beside the same node loaded from its bundles"));
  // Other types do not need another refit.
  const ToolRun plain = workspace.Moepack(
      "build fixtures/tiny-moe --groups 2 --refit-store out.refit --prove -o plain");
  EXPECT_EQ(plain.status, 0) << plain.err << plain.out;
  const ToolRun node = workspace.Moepack("assemble plain --group 1 -o node");
  EXPECT_EQ(node.status, 0) << node.err;
  EXPECT_THAT(ReadFile(workspace / "node/moepack_node.json"), HasSubstr("\"refit\": "));
}

// The experts of gpt-oss are packed codes, and its projections have biases.
TEST(BuildRefit, RefitsPackedExpertsWithBiasesIntoGgufBundles) {
  const Workspace workspace;
  ASSERT_TRUE(fixtures::MakeCheckpoint("gpt-oss", workspace / "model"));
  ASSERT_EQ(workspace.Moepack("plan model --groups 2 -o plan.json").status, 0);
  const std::string build = std::string("build model --plan plan.json --refit") + kTexts + " -o ";
  const ToolRun run = workspace.Moepack(build + "out --format gguf --prove");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: quantized source: "));
  EXPECT_THAT(run.out, HasSubstr("verification passed: "));
  EXPECT_THAT(ReadFile(workspace / "out.refit/refit.json"), HasSubstr("\"down_bias\""));
  const ToolRun check = workspace.Moepack("check out");
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  const ToolRun safetensors = workspace.Moepack(build + "other");
  EXPECT_NE(safetensors.status, 0);
  EXPECT_THAT(safetensors.err, HasSubstr("to put a refit in its place, found U8"));
}

TEST(BuildRefit, TheDefaultStoreIsBesideAnOutputThatEndsInASlash) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(
      std::string("build fixtures/tiny-moe --groups 2 --no-verify --refit -o out/") + kFewSteps);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(workspace / "out.refit/refit.json"));
  EXPECT_TRUE(std::filesystem::exists(workspace / "out/distribution.json"));
}

TEST(BuildRefit, TakesMemoryAndScratchOfTheRefit) {
  const Workspace workspace;
  const std::string build = "build fixtures/tiny-moe --groups 2 --no-verify -o out ";
  const ToolRun run = workspace.Moepack(build + "--refit --refit-memory 64MiB" + kFewSteps);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(ReadFile(workspace / "out.refit/refit.json"), HasSubstr("\"memory\": \"67108864\""));
  // The rows of all calibration text do not fit into half of it.
  const ToolRun spilled = workspace.Moepack(
      build +
      "--force --refit --refit-store other --refit-memory 16MiB --refit-scratch nowhere "
      "--text fixtures/texts/calibration.jsonl");
  EXPECT_EQ(spilled.status, 5);
  EXPECT_THAT(spilled.err, HasSubstr("nowhere: expected a directory, found none"));
  const ToolRun alone = workspace.Moepack(build + "--force --refit-scratch nowhere");
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("--refit"));
}

// The nodes are told of it: in GGUF's metadata, in config.json, and by the runtime.
TEST(BuildRefit, NodesUseAsManyExpertsAsTheirRefitWasMadeFor) {
  const Workspace workspace;
  const std::string refit =
      std::string("build fixtures/tiny-moe --groups 2 --refit --top-k 4 --no-verify") + kFewSteps;
  const ToolRun run = workspace.Moepack(refit + " --quantize Q8_0 -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  const ToolRun check = workspace.Moepack("check out");
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  ASSERT_EQ(workspace.Moepack("assemble out --group 0 -o node").status, 0);
  const ToolRun keys = workspace.Moepack("list-tensors node --summary");
  EXPECT_THAT(keys.out, HasSubstr("top-4")) << keys.out;
  const ToolRun again =
      workspace.Moepack("build fixtures/tiny-moe --groups 2 --refit-store out.refit -o plain");
  ASSERT_EQ(again.status, 0) << again.err;
  ASSERT_EQ(workspace.Moepack("assemble plain --group 1 -o hf").status, 0);
  EXPECT_THAT(ReadFile(workspace / "hf/config.json"), HasSubstr("\"num_experts_per_tok\": 4"));
  EXPECT_EQ(workspace.Moepack("check plain").status, 0);
}

// A GGUF distribution with the numbers of its source keeps marks and versions when it is quantized.
TEST(BuildRefit, CanQuantizeLaterWithTheImportanceOfTheGroups) {
  const Workspace workspace;
  const std::string build = "build fixtures/tiny-moe --groups 2 ";
  const ToolRun exact = workspace.Moepack(build + "--format gguf --refit -o exact" + kFewSteps);
  ASSERT_EQ(exact.status, 0) << exact.err;
  const ToolRun later = workspace.Moepack(
      "quantize exact --recipe Q4_K_M --imatrix exact.refit/imatrix.gguf -o later");
  ASSERT_EQ(later.status, 0) << later.err;
  const ToolRun once =
      workspace.Moepack(build + "--refit-store exact.refit --quantize Q4_K_M -o once");
  ASSERT_EQ(once.status, 0) << once.err;
  const ToolRun plain = workspace.Moepack(
      build + "--refit-store exact.refit --no-refit-imatrix --quantize Q4_K_M -o plain");
  ASSERT_EQ(plain.status, 0) << plain.err;
  const std::string group = "groups/001/experts.gguf";
  EXPECT_NE(ReadFile(workspace / ("once/" + group)), ReadFile(workspace / ("plain/" + group)));
  const std::string manifest = ReadFile(workspace / "later/distribution.json");
  EXPECT_THAT(manifest, HasSubstr("\"derived\": "));
  EXPECT_THAT(manifest, HasSubstr("\"refit\": "));
  const ToolRun verify = workspace.Moepack(
      "verify later --against fixtures/tiny-moe --imatrix exact.refit/imatrix.gguf");
  EXPECT_EQ(verify.status, 0) << verify.err << verify.out;
}

TEST(BuildRefit, WritesADistributionWithTheRefitCommand) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("plan fixtures/tiny-moe --groups 2 -o plan.json").status, 0);
  const ToolRun run =
      workspace.Moepack(std::string("refit fixtures/tiny-moe --plan plan.json -o out") + kFewSteps);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("groups/001/experts.safetensors"));
  const ToolRun verify = workspace.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_EQ(verify.status, 0) << verify.out;
  EXPECT_THAT(verify.out, HasSubstr("were made by a refit; all others have the source's values"));
  // Such a distribution is not quantized, but the command that is named makes one of its plan.
  const ToolRun refused = workspace.Moepack("quantize out --recipe Q4_K_M -o q4");
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, HasSubstr("`moepack build SRC --plan out --refit-store out.refit "
                                     "--recipe Q4_K_M -o OUT`"));
  const ToolRun named = workspace.Moepack(
      "build fixtures/tiny-moe --plan out --refit-store out.refit --recipe Q4_K_M -o q4");
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_THAT(ReadFile(workspace / "q4/distribution.json"), HasSubstr("\"derived\": "));
}

TEST(BuildRefit, MergesTheOverlayIntoTheGroupsOnRequest) {
  const Workspace workspace;
  const std::string build =
      "build fixtures/tiny-moe --groups 2 --overlay-file fixtures/tiny-overlay.json --refit";
  const ToolRun kept = workspace.Moepack(build + " -o kept" + kFewSteps);
  ASSERT_EQ(kept.status, 0) << kept.err;
  EXPECT_TRUE(std::filesystem::exists(workspace / "kept/overlays"));
  const ToolRun merged = workspace.Moepack(
      build +
      " --merge-overlay --steps ridge --text fixtures/texts/manual.md --most-tokens 300 --context "
      "64 --least-tokens 20 -o merged");
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_FALSE(std::filesystem::exists(workspace / "merged/overlays"));
  EXPECT_THAT(ReadFile(workspace / "merged/distribution.json"), HasSubstr("\"--merge-overlay\""));
  const ToolRun check = workspace.Moepack("check merged");
  EXPECT_EQ(check.status, 0) << check.err;
  const ToolRun again = workspace.Moepack(
      "build fixtures/tiny-moe --groups 2 --overlay-file fixtures/tiny-overlay.json "
      "--refit-store merged.refit --merge-overlay -o again");
  EXPECT_EQ(again.status, 0) << again.err;
}

TEST(BuildRefit, RefusesOptionsWithoutEffectOrWithoutAStore) {
  const Workspace workspace;
  const ToolRun texts =
      workspace.Moepack(std::string("build fixtures/tiny-moe --groups 2 -o out") + kFewSteps);
  EXPECT_EQ(texts.status, 2);
  EXPECT_THAT(texts.err, HasSubstr("--refit"));
  for (const char* option : {"--steps ridge", "--top-k 2", "--most-tokens 100", "--bucket prose",
                             "--held-out-text fixtures/texts/manual.md", "--refit-memory 1G"}) {
    const ToolRun run =
        workspace.Moepack(std::string("build fixtures/tiny-moe --groups 2 -o out ") + option);
    EXPECT_EQ(run.status, 2) << option;
    const std::string name = std::string(option).substr(0, std::string(option).find(' '));
    EXPECT_THAT(run.err, HasSubstr(name)) << option;
    EXPECT_THAT(run.err, HasSubstr("needs --refit")) << option;
    EXPECT_FALSE(std::filesystem::exists(workspace / "out")) << option;
  }
  const ToolRun plain =
      workspace.Moepack("build fixtures/tiny-moe --groups 2 -o out --no-refit-imatrix");
  EXPECT_EQ(plain.status, 2);
  EXPECT_THAT(plain.err, HasSubstr("--no-refit-imatrix has no effect without refitted experts"));
  const ToolRun trunk = workspace.Moepack(
      std::string("build fixtures/tiny-moe --groups 2 --refit --only trunk -o out") + kFewSteps);
  EXPECT_EQ(trunk.status, 2);
  EXPECT_THAT(trunk.err, HasSubstr("--refit has no effect without a group among the parts of "
                                   "--only"));
  const ToolRun dry = workspace.Moepack(
      std::string("build fixtures/tiny-moe --groups 2 --refit --dry-run -o out") + kFewSteps);
  EXPECT_EQ(dry.status, 2);
  EXPECT_THAT(dry.err, HasSubstr("--dry-run cannot be used with --refit"));
  const ToolRun merge =
      workspace.Moepack("build fixtures/tiny-moe --groups 2 --merge-overlay -o out");
  EXPECT_EQ(merge.status, 2);
  EXPECT_THAT(merge.err, HasSubstr("--merge-overlay has no effect: the plan has no overlay"));
  const ToolRun unrefitted = workspace.Moepack(
      "build fixtures/tiny-moe --groups 2 --overlay-file fixtures/tiny-overlay.json "
      "--merge-overlay -o out");
  EXPECT_EQ(unrefitted.status, 2);
  EXPECT_THAT(unrefitted.err,
              HasSubstr("--merge-overlay has no effect without --refit or --refit-store"));
  ASSERT_EQ(workspace.Moepack("plan fixtures/tiny-moe --groups 2 -o plan.json").status, 0);
  const ToolRun nowhere =
      workspace.Moepack(std::string("refit fixtures/tiny-moe --plan plan.json") + kFewSteps);
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("-o or --store is required"));
  const ToolRun missing =
      workspace.Moepack("build fixtures/tiny-moe --groups 2 --refit-store nothing -o out");
  EXPECT_EQ(missing.status, 5);
  EXPECT_THAT(missing.err, HasSubstr("nothing/refit.json"));
}

}  // namespace
}  // namespace moepack::cli
