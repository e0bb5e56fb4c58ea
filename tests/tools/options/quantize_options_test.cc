// Quantized sources through the commands: keeping the source's grid, and invalid scales.
#include <gmock/gmock.h>

#include "tests/libshard/convert/golden_listing.h"
#include "tests/libshard/convert/sample.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// A small Kimi-K2.5: int4 experts in groups of 32.
std::string Int4Checkpoint() {
  return moepack::golden::Folder("kimi-k2.5", "tokenizer_config.json").string();
}

TEST(Repack, Int4KeepsItsGridAndReportsItsExactness) {
  const std::string source = Int4Checkpoint();
  if (source.empty()) GTEST_SKIP() << "no golden checkpoint kimi-k2.5 on this machine";
  const Workspace workspace;
  const std::string command = "quantize '" + source + "' --recipe Q4_0 -o ";
  const auto kept = workspace.Json(command + "kept.gguf --json");
  EXPECT_GT(kept["grid"]["weights"], 0);
  EXPECT_EQ(kept["grid"]["weights"], 32 * kept["grid"]["scales"].get<uint64_t>());
  EXPECT_EQ(kept["grid"]["exact_scales"], kept["grid"]["scales"])
      << "all scales are BF16 numbers of usual size";
  EXPECT_EQ(kept["grid"]["largest_rounding"], 0.0);
  const ToolRun run = workspace.Moepack(command + "again.gguf");
  EXPECT_THAT(run.err, HasSubstr(" weights keep the grid of their source: of "));
  const auto made = workspace.Json(command + "made.gguf --no-repack --json");
  EXPECT_EQ(made["recipe"], "Q4_0 --no-repack");
  EXPECT_EQ(made["grid"]["weights"], 0);
  EXPECT_EQ(made["bytes"], kept["bytes"]);
  EXPECT_NE(made["files"][0]["sha256"], kept["files"][0]["sha256"]);
}

TEST(Repack, VerifiesADistributionAsItWasMade) {
  const std::string source = Int4Checkpoint();
  if (source.empty()) GTEST_SKIP() << "no golden checkpoint kimi-k2.5 on this machine";
  const Workspace workspace;
  for (const std::string option : {"", " --no-repack"}) {
    const std::string out = "d" + std::to_string(option.size());
    const ToolRun built = workspace.Moepack("build '" + source + "' --groups 2 --quantize Q4_0" +
                                            option + " -o " + out);
    ASSERT_EQ(built.status, 0) << built.err;
    const ToolRun proved = workspace.Moepack("verify " + out + " --against '" + source + "'");
    EXPECT_EQ(proved.status, 0) << proved.out;
    const std::string manifest = ReadFile(workspace / (out + "/distribution.json"));
    EXPECT_THAT(manifest, HasSubstr("\"recipe\": \"Q4_0" + option + "\""));
  }
}

TEST(Repack, AnExactModelKeepsInt4AsQ40) {
  const std::string source = Int4Checkpoint();
  if (source.empty()) GTEST_SKIP() << "no golden checkpoint kimi-k2.5 on this machine";
  const Workspace workspace;
  const auto exact =
      workspace.Json("quantize '" + source + "' --recipe exact -o e.gguf --dry-run --json");
  EXPECT_GT(exact["types"]["q4_0"]["weights"], 0);
  const auto plain = workspace.Json("quantize '" + source +
                                    "' --recipe exact --no-repack -o e.gguf --dry-run --json");
  EXPECT_FALSE(plain["types"].contains("q4_0"));
}

// Experts whose gate is in FP8 with a scale each.
ConvertSample Fp8(float scale) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["quantization_config"] = {{"quant_method", "fp8"},
                                          {"weight_block_size", {128, 128}}};
  for (const char* expert : {"0", "1"}) {
    const std::string name =
        std::string("model.layers.0.mlp.experts.") + expert + ".gate_proj.weight";
    fixtures::RawTensor& codes = sample.Tensor(name);
    codes.dtype = "F8_E4M3";
    codes.bytes = std::string(8, '\x38');
    const float value = *expert == '1' ? scale : 1.0f;
    std::string bytes(sizeof(value), '\0');
    std::memcpy(bytes.data(), &value, sizeof(value));
    sample.tensors.push_back({name + "_scale_inv", "F32", {1, 1}, bytes});
  }
  return sample;
}

// No other layer shows that the tensor should exist, but the converter knows.
TEST(Check, AsksTheConverterWhatTheTensorsDoNotShow) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  std::erase_if(sample.tensors, [](const fixtures::RawTensor& tensor) {
    return tensor.name.ends_with("self_attn.q_proj.weight");
  });
  (void)sample.Open();
  const Workspace workspace;
  const ToolRun run = workspace.Moepack("list-tensors '" + sample.path().string() + "' --check");
  EXPECT_EQ(run.status, 3) << run.out << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("conversion: "), HasSubstr("q_proj.weight"), HasSubstr("1 finding")));
}

TEST(Pre, MustLookLikeAName) {
  const Workspace workspace;
  for (const char* name : {"'a b'", "\"$(printf 'a\\033[31m')\"", "../x"}) {
    const ToolRun run = workspace.Moepack(std::string("quantize fixtures/tiny-moe --recipe Q8_0 ") +
                                          "--pre " + name + " -o m.gguf");
    EXPECT_EQ(run.status, 2) << run.out;
    EXPECT_THAT(run.err, HasSubstr("expected the name of a pre-tokenizer, found \""));
  }
}

TEST(Build, PrintsAVerifyCommandWithTheSameOptions) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(
      "build fixtures/tiny-moe --groups 2 --quantize Q8_0 --no-mtp --pre qwen2 -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("--against fixtures/tiny-moe --pre qwen2\n"));
}

TEST(Scales, EndTheRunAndLeaveNothingIfTheyAreImpossible) {
  for (const float scale : {NAN, INFINITY, 0.0f}) {
    const ConvertSample sample = Fp8(scale);
    ASSERT_TRUE(sample.Open());
    const Workspace workspace;
    const std::string before = workspace.Listing();
    const ToolRun run = workspace.Moepack("build '" + sample.path().string() +
                                          "' --groups 2 --quantize BF16 -o out");
    EXPECT_EQ(run.status, 3) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("model.safetensors: tensor \"model.layers.0.mlp.experts.1"
                                         ".gate_proj.weight_scale_inv\": scale at [0, 0]: "),
                               Not(HasSubstr("internal"))));
    EXPECT_EQ(workspace.Listing(), before) << "no partial output is left";
  }
  const ConvertSample sample = Fp8(0.5f);
  ASSERT_TRUE(sample.Open());
  const ToolRun run = Workspace().Moepack("build '" + sample.path().string() +
                                          "' --groups 2 --quantize BF16 -o out");
  EXPECT_EQ(run.status, 0) << run.err;
}

}  // namespace
}  // namespace moepack::cli
