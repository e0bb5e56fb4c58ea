// fixtures/tiny-sigmoid, a trained model whose router differs from tiny-moe's: sigmoid scores, a
// learned selection bias, a shared expert, a dense first layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime-shim/devices/executors.h"
#include "runtime-shim/eval/token_scores.h"
#include "runtime-shim/model/weights.h"
#include "runtime-shim/session/session.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kModel = MOEPACK_SOURCE_DIR "/fixtures/tiny-sigmoid";

// golden.json holds the output of the training script's own forward pass.
TEST(TinySigmoid, GivesTheLogitsOfTheScriptThatTrainedIt) {
  const Json golden = Json::parse(ReadFile(std::string(kModel) + "/golden.json"));
  const std::vector<uint32_t> tokens = golden["tokens"];
  const auto executor = runtime::OpenExecutor("cpu", {});
  ASSERT_TRUE(executor);
  const auto weights = runtime::LoadWeights(kModel, {});
  ASSERT_TRUE(weights) << weights.error().message;
  const auto model = runtime::Model::Load(*weights, **executor);
  ASSERT_TRUE(model) << model.error().message;
  runtime::SessionOptions options;
  options.context = static_cast<uint32_t>(tokens.size());
  const auto session = runtime::Session::Open(
      **model, runtime::EligibleExperts(**weights, std::nullopt, true), options);
  ASSERT_TRUE(session) << session.error().message;
  const auto logits = (*session)->Feed(tokens, runtime::LogitsOf::kAll);
  ASSERT_TRUE(logits) << logits.error().message;
  const size_t width = (*model)->vocabulary();
  ASSERT_EQ(logits->size(), tokens.size() * width);
  const auto scores = [&](size_t row) {
    return runtime::TokenScores(std::span(*logits).subspan(row * width, width));
  };
  constexpr double kNear = 2e-4;  // sums in another order
  for (size_t row = 0; row + 1 < tokens.size(); ++row)
    EXPECT_NEAR(scores(row).LogProbability(tokens[row + 1]), golden["next_log_probabilities"][row],
                kNear)
        << row;
  const std::vector<double> last = golden["last_log_probabilities"];
  ASSERT_EQ(last.size(), width);
  for (uint32_t id = 0; id < width; ++id)
    EXPECT_NEAR(scores(tokens.size() - 1).LogProbability(id), last[id], kNear) << id;
}

// The bias decides which experts are chosen, so it must be present and must not be the same for
// all.
TEST(TinySigmoid, HasASelectionBiasLearnedByBalancing) {
  const auto weights = runtime::LoadWeights(kModel, {});
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ((*weights)->moe_layers, (LayerCounts{{1, 16}, {2, 16}, {3, 16}}));
  for (const char* layer : {"1", "2", "3"}) {
    const runtime::HostTensor* bias =
        (*weights)->FindTrunk(std::string("blk.") + layer + ".exp_probs_b.bias");
    ASSERT_NE(bias, nullptr) << layer;
    ASSERT_EQ(bias->bytes.size(), 16 * sizeof(float));
    std::set<std::vector<std::byte>> values;
    for (size_t i = 0; i < 16; ++i) {
      const auto value = bias->bytes.Part(i * sizeof(float), sizeof(float));
      values.emplace(value.begin(), value.end());
    }
    EXPECT_GT(values.size(), 8u) << layer;
  }
}

// Every command that a split needs.
TEST(TinySigmoid, IsProfiledPlannedSplitAndChecked) {
  const Workspace workspace;
  std::filesystem::create_directory_symlink(kModel, workspace / "model");
  const Json profile = workspace.Json(
      "profile model --text fixtures/texts/calibration.jsonl -o routing.json --json");
  EXPECT_EQ(profile["layers"].size(), 3u);
  const Json plan = workspace.Json(
      "plan model --groups 2 --eligible 8 --partition session --statistics routing.json -o "
      "plan.json --json");
  ASSERT_EQ(plan["nodes"].size(), 2u);
  EXPECT_GT(plan["expectation"]["expected"]["mean"].get<double>(), 0.5) << plan;
  const ToolRun shard = workspace.Moepack("shard-experts model --plan plan.json -o out");
  ASSERT_EQ(shard.status, 0) << shard.err;
  const ToolRun check = workspace.Moepack("check out");
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("check passed: "));
  const ToolRun verify = workspace.Moepack("verify out --against model");
  EXPECT_EQ(verify.status, 0) << verify.out;
}

// With another kind of router than tiny-moe's, and with a selection bias and a shared expert.
TEST(TinySigmoid, LosesLessAfterARefit) {
  const Workspace workspace;
  std::filesystem::create_directory_symlink(kModel, workspace / "model");
  const Json profile = workspace.Json(
      "profile model --text fixtures/texts/calibration.jsonl -o routing.json --json");
  ASSERT_EQ(profile["layers"].size(), 3u);
  const std::string plan =
      "build model --groups 2 --eligible 8 --partition same --statistics routing.json --no-verify ";
  const auto kld = [&](const std::string& build, const std::string& out) {
    const ToolRun built = workspace.Moepack(build + " -o " + out);
    EXPECT_EQ(built.status, 0) << built.err;
    const Json eval = workspace.Json("eval " + out +
                                     " --against model --text fixtures/texts/held-out.jsonl "
                                     "--generate 0 --json");
    return eval["groups"][0]["total"]["kld"]["mean"].get<double>();
  };
  const double plain = kld(plan, "plain");
  const double refitted =
      kld(plan + "--refit --text fixtures/texts/calibration.jsonl --updates 50", "refitted");
  EXPECT_GT(plain, 0);
  EXPECT_LT(refitted, 0.5 * plain);
  const Json manifest = Json::parse(ReadFile(workspace / "refitted/distribution.json"));
  for (const Json& layer : manifest["refit"]["layers"])
    EXPECT_TRUE(layer["accepted"].get<bool>()) << layer;
}

}  // namespace
}  // namespace moepack::cli
