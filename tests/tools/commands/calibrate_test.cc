// Encoding with error feedback: quantize --calibrate, build --calibrate and the store of both.
#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "fixtures/generator.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kCalibrationText =
    " --calibrate fixtures/texts/manual.md --most-tokens 400 --context 64 --least-tokens 8";
constexpr const char* kTextOfBuild =
    " --calibrate fixtures/texts/manual.md --calibrate-most-tokens 400 --calibrate-context 64"
    " --calibrate-least-tokens 8";
constexpr const char* kQuantize = "quantize fixtures/tiny-moe --recipe Q4_K_M";

// A record of the calibration as if another executor had computed it.
std::string WithExecutor(std::string record, const std::string& executor) {
  const std::string own = "\"executor\": \"cpu\"";
  const size_t at = record.find(own);
  EXPECT_NE(at, std::string::npos);
  return record.replace(at, own.size(), "\"executor\": \"" + executor + "\"");
}

// A calibrated tiny-moe in Q4_K_M: out.gguf and its store.
class Calibrated : public testing::Test {
 protected:
  Calibrated() {
    static MadeOnce made(std::string(kQuantize) + kCalibrationText + " -o out.gguf",
                         {"out.gguf", "out.gguf.calibrated"});
    made.CopyInto(workspace_);
  }
  std::string Read(const std::string& name) const { return ReadFile(workspace_ / name); }

  // Compares trunk and group 0, whose experts are the first half, with the whole file.
  void ExpectSlicesOf(const std::string& name, const nlohmann::json& manifest) const {
    const std::string whole = Read(name);
    std::map<std::string, size_t> offsets;
    const nlohmann::json list = workspace_.Json("list-tensors " + name + " --json");
    for (const auto& tensor : list["tensors"]) offsets[tensor["name"]] = tensor["offset"];
    size_t compared = 0;
    for (const auto& bundle : manifest["bundles"]) {
      const std::string file = bundle["file"];
      if (file != "trunk/trunk.gguf" && file != "groups/000/experts.gguf") continue;
      const std::string part = Read("out/" + file);
      for (const auto& tensor : bundle["tensors"]) {
        const size_t offset = tensor["offset"], bytes = tensor["bytes"];
        EXPECT_TRUE(part.compare(offset, bytes, whole, offsets.at(tensor["name"]), bytes) == 0)
            << file << " " << tensor["name"];
        ++compared;
      }
    }
    EXPECT_GT(compared, 30u);
  }

  Workspace workspace_;
};

TEST_F(Calibrated, HasTheSizeOfThePlainFileAndOtherBytes) {
  const ToolRun plain = workspace_.Moepack(std::string(kQuantize) + " -o plain.gguf");
  ASSERT_EQ(plain.status, 0) << plain.err;
  const ToolRun tensors = workspace_.Moepack("list-tensors out.gguf --json");
  EXPECT_EQ(tensors.status, 0) << tensors.err;
  const ToolRun run =
      workspace_.Moepack(std::string(kQuantize) + kCalibrationText + " --force -o out.gguf");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("layer 0: "));
  EXPECT_THAT(run.err, HasSubstr("; done before"));
  EXPECT_THAT(run.err, HasSubstr(" of 1 matrix with feedback"));
  EXPECT_THAT(run.out, testing::ContainsRegex("calibrated on [0-9,]+ tokens in [0-9.]+ s: "));
  EXPECT_THAT(run.out, HasSubstr(" encoded with feedback"));
  EXPECT_NE(Read("plain.gguf"), Read("out.gguf"));
  const ToolRun bits = workspace_.Moepack("run out.gguf --tokens 5,6,7 -n 2");
  EXPECT_EQ(bits.status, 0) << bits.err;
}

TEST_F(Calibrated, SaysSoInItsKeys) {
  const std::string file = Read("out.gguf").substr(0, 1 << 17);
  for (const char* key : {"moepack.calibration.method", "moepack.calibration.texts",
                          "moepack.calibration.tokens", "moepack.calibration.version"})
    EXPECT_THAT(file, HasSubstr(key));
  const ToolRun summary = workspace_.Moepack("list-tensors out.gguf --summary");
  EXPECT_THAT(summary.out, testing::ContainsRegex("calibrated +on [0-9,]+ tokens, feedback-2"));
  const nlohmann::json document = workspace_.Json("list-tensors out.gguf --summary --json");
  EXPECT_EQ(document["calibrated"]["method"], "feedback-2");
  // Other types are not calibrated.
  const ToolRun run =
      workspace_.Moepack("quantize out.gguf --recipe Q4_0 --allow-requantize -o other.gguf");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(Read("other.gguf").substr(0, 1 << 17), Not(HasSubstr("moepack.calibration")));
}

TEST_F(Calibrated, HasTheSameBytesForEveryNumberOfThreadsAndEveryMemory) {
  const std::string expected = Read("out.gguf");
  for (const char* resources : {"--jobs 1 --memory 16MB", "--jobs 4 --memory 2GB"}) {
    const ToolRun run =
        workspace_.Moepack(std::string(kQuantize) + kCalibrationText + " " + resources +
                           " --calibrated-store own --force -o out.gguf");
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(Read("out.gguf") == expected) << resources;
    std::filesystem::remove_all(workspace_ / "own");
  }
}

// As a kill after layer 1 leaves it.
TEST_F(Calibrated, GoesOnAfterTheLastLayerOfAKilledRun) {
  const std::string expected = Read("out.gguf");
  const std::string record = "out.gguf.calibrated/calibration.json";
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(Read(record));
  auto& layers = document["layers"];
  layers.erase(layers.begin() + 2, layers.end());
  WriteAll(workspace_ / record, document.dump());
  WriteAll(workspace_ / "out.gguf.calibrated/layer-002.bin", "half");
  const ToolRun unfinished = workspace_.Moepack(
      std::string(kQuantize) + " --calibrated-store out.gguf.calibrated -o early.gguf");
  EXPECT_EQ(unfinished.status, 3);
  EXPECT_THAT(unfinished.err, HasSubstr("layers: expected 4 with the output, found 2"));
  const ToolRun run =
      workspace_.Moepack(std::string(kQuantize) + kCalibrationText + " --force -o out.gguf");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Read("out.gguf") == expected);
}

TEST_F(Calibrated, IsWrittenAgainFromItsStoreAlone) {
  const std::string expected = Read("out.gguf");
  const ToolRun run = workspace_.Moepack(
      std::string(kQuantize) + " --calibrated-store out.gguf.calibrated --force -o out.gguf");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Read("out.gguf") == expected);
  const ToolRun types = workspace_.Moepack(
      "quantize fixtures/tiny-moe --recipe Q5_K_M --calibrated-store out.gguf.calibrated -o "
      "b.gguf");
  EXPECT_EQ(types.status, 6);
  EXPECT_THAT(types.err, HasSubstr("the tensors were encoded for other types"));
}

TEST_F(Calibrated, RefusesAStoreOfAnotherCalibration) {
  const std::string again = std::string(kQuantize) + kCalibrationText + " --force -o out.gguf";
  const ToolRun shrink = workspace_.Moepack(again + " --shrink 2");
  EXPECT_EQ(shrink.status, 6);
  EXPECT_THAT(shrink.err, HasSubstr("parameter shrink: expected 2, found 1"));
  const std::string record = "out.gguf.calibrated/calibration.json", whole = Read(record);
  WriteAll(workspace_ / record, WithExecutor(whole, "vulkan"));
  const ToolRun executor = workspace_.Moepack(again);
  EXPECT_EQ(executor.status, 6);
  EXPECT_THAT(executor.err, HasSubstr("parameter executor: expected cpu, found vulkan"));
  WriteAll(workspace_ / record, whole);
  const ToolRun text = workspace_.Moepack(std::string(kQuantize) +
                                          " --calibrate docs/architecture.md --most-tokens 400 "
                                          "--context 64 --least-tokens 8 --force -o out.gguf");
  EXPECT_EQ(text.status, 6);
  EXPECT_THAT(text.err, HasSubstr("calibration texts: expected those given, found others"));
  const ToolRun types =
      workspace_.Moepack(std::string("quantize fixtures/tiny-moe --recipe Q5_K_M") +
                         kCalibrationText + " --force -o out.gguf");
  EXPECT_EQ(types.status, 6);
  EXPECT_THAT(types.err, HasSubstr("types of the tensors: expected"));
}

TEST_F(Calibrated, RefusesADamagedStore) {
  std::string layer = Read("out.gguf.calibrated/layer-001.bin");
  layer[100] = static_cast<char>(layer[100] ^ 1);
  WriteAll(workspace_ / "out.gguf.calibrated/layer-001.bin", layer);
  const ToolRun run = workspace_.Moepack(
      std::string(kQuantize) + " --calibrated-store out.gguf.calibrated --force -o out.gguf");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("layer-001.bin: sha256: expected "));
}

// Sizes and layers that the file of a layer agrees with, but not the model.
TEST_F(Calibrated, RefusesAStoreThatDoesNotFitTheModel) {
  const std::string record = "out.gguf.calibrated/calibration.json", whole = Read(record);
  const std::string again = std::string(kQuantize) + kCalibrationText + " --force -o out.gguf";
  const auto refused = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    nlohmann::ordered_json document = nlohmann::ordered_json::parse(whole);
    nlohmann::ordered_json& layers = document["layers"];
    layers.erase(layers.begin() + 1, layers.end());
    change(document);
    WriteAll(workspace_ / record, document.dump());
    const ToolRun run = workspace_.Moepack(again);
    EXPECT_EQ(run.status, 6) << run.err;
    return run.err;
  };
  EXPECT_THAT(refused([](auto& document) { document["layer_count"] = 2; }),
              HasSubstr("layers: expected 3, found 2"));
  EXPECT_THAT(refused([](auto& document) {
                auto& tensors = document["layers"][0]["tensors"];
                const uint64_t more = tensors[0]["bytes"].template get<uint64_t>();
                for (size_t i = 1; i < tensors.size(); ++i)
                  tensors[i]["offset"] = tensors[i]["offset"].template get<uint64_t>() + more;
                tensors[0]["bytes"] = 2 * more;
              }),
              HasSubstr(" bytes, found "));
  EXPECT_THAT(refused([](auto& document) {
                document["layers"][0]["tensors"][0]["name"] = "blk.9.attn_q.weight";
              }),
              HasSubstr("tensor \"blk.9.attn_q.weight\": expected one that is calibrated"));
}

TEST_F(Calibrated, IsSlicedIntoTheBytesOfTheWholeFile) {
  const std::string build = "build fixtures/tiny-moe --groups 2 --quantize Q4_K_M ";
  const ToolRun run =
      workspace_.Moepack(build + "--calibrated-store out.gguf.calibrated --prove -o out");
  ASSERT_EQ(run.status, 0) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("--calibrated-store out.gguf.calibrated"));
  ASSERT_EQ(workspace_.Moepack("assemble out --group 0 -o node").status, 0);
  EXPECT_EQ(workspace_.Moepack("check out").status, 0);
  const std::string manifest = Read("out/distribution.json");
  const std::string line =
      "calibrated +feedback-2, [0-9,]+ tokens, [0-9]+ of 157 matrices with feedback\n";
  EXPECT_THAT(workspace_.Moepack("inspect out").out, testing::ContainsRegex(line));
  ASSERT_EQ(workspace_.Moepack("publish out layout:models:v1").status, 0);
  EXPECT_THAT(workspace_.Moepack("inspect layout:models:v1-g001").out,
              testing::ContainsRegex(line));
  EXPECT_EQ(workspace_.Moepack("pull layout:models:v1 --group 1 -o pulled").status, 0);
  EXPECT_THAT(manifest, HasSubstr("\"format_version\": \"1.3\""));
  EXPECT_THAT(manifest, HasSubstr("\"calibrated\": {"));
  EXPECT_THAT(Read("out/head/head.gguf"), HasSubstr("moepack.calibration.version"));
  EXPECT_THAT(Read("out/README.md"), HasSubstr("quantized with error feedback on calibration"));
  EXPECT_THAT(Read("out/README.md"), HasSubstr("--calibrated-store STORE`"));
  EXPECT_THAT(Read("out/trunk/trunk.gguf").substr(0, 4096), Not(HasSubstr("moepack.calibration")));
  ExpectSlicesOf("out.gguf", nlohmann::json::parse(manifest));
  const ToolRun alone = workspace_.Moepack("verify out");
  EXPECT_THAT(alone.out,
              testing::ContainsRegex(
                  "note: calibrated-tensors: [0-9]+ tensors, [0-9,]+ bytes, were encoded "
                  "on texts \\(calibrated\\): only the store of the calibration proves"));
  const ToolRun verify = workspace_.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_EQ(verify.status, 0) << verify.err << verify.out;
  EXPECT_THAT(verify.out, Not(HasSubstr("calibrated-tensors")));
  EXPECT_THAT(verify.out, HasSubstr("were encoded on texts (calibrated): the source cannot prove"));
  EXPECT_THAT(verify.out, HasSubstr("--calibrated-store compares them"));
  ASSERT_EQ(workspace_.Moepack(build + "--no-verify -o plain").status, 0);
  const ToolRun diff = workspace_.Moepack("diff plain out");
  EXPECT_THAT(diff.out, testing::ContainsRegex("calibrated +matrices +- +[0-9]+ of 157 with"));
  const ToolRun again = workspace_.Moepack("quantize out --recipe Q4_0 -o other");
  EXPECT_EQ(again.status, 4);
  EXPECT_THAT(again.err, HasSubstr("found a calibrated one"));
}

TEST_F(Calibrated, ADistributionOfItSaysSo) {
  const ToolRun run = workspace_.Moepack("build out.gguf --groups 2 --prove -o out");
  ASSERT_EQ(run.status, 0) << run.err << run.out;
  EXPECT_THAT(Read("out/README.md"), HasSubstr("The source, a GGUF, was quantized with error"));
  EXPECT_THAT(Read("out/README.md"), HasSubstr("by the method `feedback-2`"));
  const nlohmann::json manifest = nlohmann::json::parse(Read("out/distribution.json"));
  EXPECT_EQ(manifest["format_version"], "1.0");
  EXPECT_EQ(manifest["model"]["calibrated"]["method"], "feedback-2");
  EXPECT_THAT(workspace_.Moepack("inspect out").out,
              testing::ContainsRegex("calibrated +feedback-2, [0-9,]+ tokens, says the source\n"));
  // Earlier versions did not record it.
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(Read("out/distribution.json"));
  document["model"].erase("calibrated");
  WriteAll(workspace_ / "out/distribution.json", document.dump());
  const ToolRun older = workspace_.Moepack("verify out --against out.gguf");
  EXPECT_EQ(older.status, 0) << older.err << older.out;
}

TEST_F(Calibrated, IsEncodedAgainByAVerifier) {
  const ToolRun run = workspace_.Moepack(
      "build fixtures/tiny-moe --groups 2 --quantize Q4_K_M --no-verify "
      "--calibrated-store out.gguf.calibrated -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string verify =
      "verify out --against fixtures/tiny-moe --calibrated-store out.gguf.calibrated --redo ";
  for (const char* layer : {"1", "3"}) {
    const ToolRun same = workspace_.Moepack(verify + layer + " --text fixtures/texts/manual.md");
    EXPECT_EQ(same.status, 0) << same.err << same.out;
    EXPECT_THAT(same.out, HasSubstr(" bytes: the same"));
    EXPECT_THAT(same.out, HasSubstr("compared with the store of the calibration"));
  }
  const ToolRun text = workspace_.Moepack(verify + "1 --text docs/architecture.md");
  EXPECT_EQ(text.status, 6);
  EXPECT_THAT(text.err, HasSubstr("expected the texts of the calibration"));
  const ToolRun layer = workspace_.Moepack(verify + "4 --text fixtures/texts/manual.md");
  EXPECT_EQ(layer.status, 2);
  EXPECT_THAT(layer.err, HasSubstr("expected a layer of at most 3, the output, found 4"));
  for (const char* file : {"out/distribution.json", "out.gguf.calibrated/calibration.json"})
    WriteAll(workspace_ / file, WithExecutor(Read(file), "abacus"));
  const ToolRun executor = workspace_.Moepack(verify + "1 --text fixtures/texts/manual.md");
  EXPECT_EQ(executor.status, 3);
  EXPECT_THAT(executor.err, HasSubstr("out.gguf.calibrated: parameter executor: expected one of "
                                      "cpu, vulkan, cuda, found \"abacus\""));
}

// The text gives every column its importance.
TEST(Calibrate, TakesThePlaceOfAnImportanceMatrix) {
  const Workspace workspace;
  const std::string build = "build fixtures/tiny-moe --groups 2 --quantize IQ2_XXS -o out";
  EXPECT_EQ(workspace.Moepack(build).status, 2);
  const ToolRun run = workspace.Moepack(build + kTextOfBuild);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("matrices encoded with feedback"));
  EXPECT_THAT(ReadFile(workspace / "out/README.md"),
              HasSubstr("--quantize IQ2_XXS --calibrate manual.md --calibrate-most-tokens 400 "
                        "--calibrate-context 64 --calibrate-least-tokens 8`"));
  const ToolRun again = workspace.Moepack(build + " --force --calibrated-store out.calibrated");
  EXPECT_EQ(again.status, 0) << again.err;
  const ToolRun verify = workspace.Moepack("verify out --against fixtures/tiny-moe");
  EXPECT_EQ(verify.status, 0) << verify.err;
}

TEST(Calibrate, SaysWhatItWouldTake) {
  const Workspace workspace;
  const ToolRun run =
      workspace.Moepack(std::string(kQuantize) + kCalibrationText + " --dry-run -o out.gguf");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(" tokens (about 6,144 are enough); "));
  EXPECT_THAT(run.out, Not(HasSubstr("--task")));
  EXPECT_THAT(run.err, HasSubstr("warning: few tokens: expected about 6,144 (3 per input of each "
                                 "expert), found "));
  EXPECT_FALSE(std::filesystem::exists(workspace / "out.gguf.calibrated"));
  const nlohmann::json document =
      workspace.Json(std::string(kQuantize) + kCalibrationText + " --dry-run --json -o out.gguf");
  EXPECT_GT(document["calibration"]["tokens"], 100);
  EXPECT_GT(document["calibration"]["seconds"], 0);
  EXPECT_EQ(document["calibration"]["seconds_of_one"], document["calibration"]["seconds"]);
  EXPECT_EQ(document["calibration"]["tokens_needed"], 3 * 256 * 16 / 2);
}

TEST(Calibrate, EnoughTextIsNotWarnedOf) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack(
      std::string(kQuantize) +
      " --calibrate fixtures/texts/calibration.jsonl --most-tokens 3000 --dry-run -o out.gguf");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("few tokens")));
}

// The keys that name a calibration take bytes, too.
TEST(Calibrate, ADryRunKnowsTheBytesOfTheRun) {
  for (const std::string& command :
       {std::string(kQuantize) + kCalibrationText + " -o out.gguf",
        std::string("build fixtures/tiny-moe --groups 2 --quantize Q4_K_M -o out") +
            kTextOfBuild}) {
    const Workspace workspace;
    const nlohmann::json planned = workspace.Json(command + " --dry-run --json");
    EXPECT_EQ(workspace.Listing().find("calibrated"), std::string::npos);
    const nlohmann::json written = workspace.Json(command + " --json");
    EXPECT_EQ(planned["bytes"], written["bytes"]) << command;
  }
}

TEST(Calibrate, RefusesWhatItCannotDo) {
  const Workspace workspace;
  const struct {
    std::string arguments;
    int status;
    const char* message;
  } cases[] = {
      {std::string("quantize fixtures/tiny-moe") + kCalibrationText, 2,
       "no tensor but the embedding gets"},
      {std::string(kQuantize) + " --context 64", 2, "no effect without --calibrate"},
      {std::string(kQuantize) + " --calibrate missing.txt", 5, "missing.txt"},
      {std::string(kQuantize) + " --calibrate-tokens 1,2,3", 2, "expected at least 2 windows"},
      {std::string(kQuantize) + " --calibrate-tokens 1,2,4096", 2, "4096"},
      {std::string(kQuantize) + kCalibrationText + " --held-out-text fixtures/texts/manual.md", 2,
       "held-out session \"manual.md\": expected other text than for calibration"},
      {std::string(kQuantize) + kCalibrationText + " --held-out-text fixtures/texts/manual.md", 2,
       "or add --force-overlap"},
      {std::string(kQuantize) + kCalibrationText + " --calibrated-store out.gguf", 2, "out.gguf"},
  };
  for (const auto& one : cases) {
    const ToolRun run = workspace.Moepack(one.arguments + " -o out.gguf");
    EXPECT_EQ(run.status, one.status) << one.arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(one.message)) << one.arguments;
    EXPECT_FALSE(std::filesystem::exists(workspace / "out.gguf.calibrated")) << one.arguments;
  }
  const ToolRun overlap = workspace.Moepack(
      std::string("build fixtures/tiny-moe --groups 2 --quantize Q4_K --calibrate-held-out-text "
                  "fixtures/texts/manual.md --dry-run -o out") +
      kTextOfBuild);
  EXPECT_EQ(overlap.status, 2);
  EXPECT_THAT(overlap.err, HasSubstr("or add --calibrate-force-overlap"));
  const ToolRun safetensors =
      workspace.Moepack(std::string("build fixtures/tiny-moe --groups 2 -o out") + kTextOfBuild);
  EXPECT_EQ(safetensors.status, 2);
  EXPECT_THAT(safetensors.err, HasSubstr("no effect on safetensors bundles"));
}

TEST(Calibrate, RefusesAQuantizedSourceAndADistribution) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o q8.gguf").status, 0);
  const ToolRun quantized = workspace.Moepack(
      std::string("quantize q8.gguf --recipe Q4_K_M --allow-requantize -o out.gguf") +
      kCalibrationText);
  EXPECT_EQ(quantized.status, 4);
  EXPECT_THAT(quantized.err, HasSubstr("expected values of 16 bits and more, found q8_0"));
  ASSERT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 2 --format gguf -o dist").status,
            0);
  const ToolRun distribution =
      workspace.Moepack(std::string("quantize dist --recipe Q4_K_M -o out") + kCalibrationText);
  EXPECT_EQ(distribution.status, 4);
  EXPECT_THAT(distribution.err, HasSubstr("found a distribution"));
}

// The first weight of each expert's projection down.
TEST(Calibrate, RefusesActivationsThatAreNotFinite) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("quantize fixtures/tiny-moe --recipe BF16 -o bf16.gguf").status, 0);
  const nlohmann::json list = workspace.Json("list-tensors bf16.gguf --json");
  std::string file = ReadFile(workspace / "bf16.gguf");
  size_t changed = 0;
  for (const auto& tensor : list["tensors"]) {
    if (tensor["name"] != "blk.1.ffn_down_exps.weight") continue;
    const size_t offset = tensor["offset"], bytes = tensor["bytes"];
    for (size_t at = 0; at < bytes; at += bytes / 16, ++changed)
      file.replace(offset + at, 2, "\xc0\x7f", 2);  // a NaN
  }
  ASSERT_EQ(changed, 16u);
  WriteAll(workspace / "nan.gguf", file);
  const ToolRun run = workspace.Moepack(
      std::string("quantize nan.gguf --recipe Q4_K_M -o out.gguf") + kCalibrationText);
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("layer 1: error of the products: expected a finite number"));
  // The layers before it are complete.
  EXPECT_TRUE(std::filesystem::exists(workspace / "out.gguf.calibrated/layer-000.bin"));
  EXPECT_FALSE(std::filesystem::exists(workspace / "out.gguf.calibrated/layer-001.bin"));
  EXPECT_FALSE(std::filesystem::exists(workspace / "out.gguf"));
}

}  // namespace
}  // namespace moepack::cli
