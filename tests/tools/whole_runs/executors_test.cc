// run, check, profile and eval on the bundled model in three groups, on every executor of this
// machine.
#include "runtime-shim/devices/executors.h"

#include <gmock/gmock.h>

#include <iostream>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

std::vector<std::string> ExecutorsHere() {
  std::vector<std::string> names;
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    if (kind.missing == nullptr && !kind.devices().empty())
      names.push_back(kind.name);
    else
      std::cout << "SKIPPED executor " << kind.name << ": "
                << (kind.missing != nullptr ? kind.missing : "no device") << "\n";
  }
  return names;
}

class OnEveryExecutor : public testing::Test {
 protected:
  OnEveryExecutor() {
    Build("--overlay-file fixtures/tiny-overlay.json -o with");
    Build("-o without");
    Build("--overlay-file fixtures/tiny-overlay.json --quantize Q4_K_M -o quantized");
    WriteAll(workspace_ / "text.txt", "Once upon a time there was a router with sixteen experts.");
  }

  void Build(const std::string& words) {
    const ToolRun run =
        workspace_.Moepack("build fixtures/tiny-moe --groups 3 --no-verify " + words);
    EXPECT_EQ(run.status, 0) << run.err;
  }

  nlohmann::json Json(const std::string& words, const std::string& executor) {
    return workspace_.Json(words + " --threads 1 --json --executor " + executor);
  }

  // The output of `run`.
  std::vector<int> Ids(const std::string& words, const std::string& executor) {
    std::vector<int> ids;
    const nlohmann::json document = Json(words, executor);
    for (const auto& token : document["tokens"]) ids.push_back(token["id"]);
    return ids;
  }

  Workspace workspace_;
};

TEST_F(OnEveryExecutor, EveryGroupGeneratesTheTokensOfTheCpu) {
  for (const char* distribution : {"with", "without", "quantized"}) {
    for (const char* group : {"0", "1", "2"}) {
      const std::string words = std::string("run ") + distribution + " --group " + group +
                                " --prompt Once -n 8 --no-verify";
      const std::vector<int> expected = Ids(words, "cpu");
      EXPECT_EQ(expected.size(), 8u);
      for (const std::string& executor : ExecutorsHere())
        EXPECT_EQ(Ids(words, executor), expected) << executor << " " << words;
    }
  }
}

TEST_F(OnEveryExecutor, BundlesMatchTheMaskedModel) {
  for (const std::string& executor : ExecutorsHere()) {
    // A software driver takes a second for about ten positions of all nodes.
    const std::string tokens = executor == "cpu" ? "" : " --tokens 3,144,332";
    for (const char* distribution : {"with", "without", "quantized"}) {
      const auto report = Json(std::string("check ") + distribution + tokens, executor);
      EXPECT_EQ(report["passed"], true) << executor << " " << distribution;
    }
  }
}

TEST_F(OnEveryExecutor, ProfilesCountTheSameSelections) {
  for (const std::string& executor : ExecutorsHere()) {
    const ToolRun run = workspace_.Moepack("profile fixtures/tiny-moe --text text.txt -o " +
                                           executor + ".json --executor " + executor);
    EXPECT_EQ(run.status, 0) << run.err;
    const auto expected = nlohmann::json::parse(ReadFile(workspace_ / "cpu.json"));
    const auto found = nlohmann::json::parse(ReadFile(workspace_ / (executor + ".json")));
    ASSERT_FALSE(expected["co_selection"].empty());
    EXPECT_EQ(found["co_selection"], expected["co_selection"]) << executor;
  }
}

TEST_F(OnEveryExecutor, EvaluationsAgree) {
  const std::string words = "eval with --text text.txt --generate 0";
  const auto expected = Json(words, "cpu");
  for (const std::string& executor : ExecutorsHere()) {
    const auto found = Json(words, executor);
    ASSERT_EQ(expected["groups"].size(), 3u);
    for (size_t group = 0; group < 3; ++group) {
      EXPECT_NEAR(found["groups"][group]["log_probability"].get<double>(),
                  expected["groups"][group]["log_probability"].get<double>(), 1e-3)
          << executor << " group " << group;
    }
  }
}

// No store is continued on another executor, which would round differently.
TEST_F(OnEveryExecutor, CalibrationsStayOnTheirExecutor) {
  const std::string words =
      "quantize fixtures/tiny-moe --recipe Q4_0 --calibrate text.txt --context 8 --keep-back 2 "
      "--least-tokens 1 --calibrated-store store --force -o out.gguf --executor ";
  for (const std::string& executor : ExecutorsHere()) {
    std::filesystem::remove_all(workspace_ / "store");
    const ToolRun run = workspace_.Moepack(words + executor);
    ASSERT_EQ(run.status, 0) << run.err;
    const auto record = nlohmann::json::parse(ReadFile(workspace_ / "store/calibration.json"));
    EXPECT_EQ(record["parameters"]["executor"], executor);
    size_t accepted = 0;
    for (const auto& layer : record["layers"]) accepted += layer["accepted"].get<size_t>();
    EXPECT_GT(accepted, 0u) << executor;
    const ToolRun built = workspace_.Moepack(
        "build fixtures/tiny-moe --groups 2 --quantize Q4_0 --calibrated-store store --no-verify "
        "--force -o out");
    ASSERT_EQ(built.status, 0) << built.err;
    const ToolRun redo = workspace_.Moepack(
        "verify out --against fixtures/tiny-moe --calibrated-store store --redo 1 --text text.txt");
    EXPECT_EQ(redo.status, 0) << executor << redo.err << redo.out;
    EXPECT_THAT(redo.out, HasSubstr("layer 1: ")) << executor;
    if (executor == "cpu") continue;
    const ToolRun cpu = workspace_.Moepack(words + "cpu");
    EXPECT_EQ(cpu.status, 6);
    EXPECT_THAT(cpu.err, HasSubstr("parameter executor: expected cpu, found " + executor));
  }
}

}  // namespace
}  // namespace moepack::cli
