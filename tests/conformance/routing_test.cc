// The same routing everywhere: in the model of a checkpoint, in the model of the GGUF that it
// becomes, and in the runtime that runs either. Over generated checkpoints of every family with a
// converter, with their configs as they are and with everything about routing removed from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "fixtures/generator.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/graph/model_spec.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/family_find.h"
#include "runtime-shim/model/weights.h"
#include "tests/libshard/convert/convertible_layouts.h"
#include "tests/tools/run_moepack.h"

namespace {

using moepack::Routing;
using moepack::cli::ToolRun;
using moepack::cli::Workspace;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// transformers' class does not normalise unless the config says so; llama.cpp always does.
constexpr const char* kRefusedWhenSilent = "qwen3-moe";

// Every field about routing, in every nested config.
void Silence(Json& config) {
  if (!config.is_object()) return;
  for (const moepack::ConfigKeys keys :
       {moepack::fields::kGating, moepack::fields::kNormalize, moepack::fields::kScale,
        moepack::fields::kExpertGroups, moepack::fields::kExpertGroupsUsed}) {
    for (const char* key : keys) config.erase(key);
  }
  config.erase("moe_primary_router_apply_softmax");  // SmallThinker
  for (auto& [name, inner] : config.items()) Silence(inner);
}

// `bias` is left to the tensors; DeepSeek-V2 scores its groups differently, and conversion warns of
// it.
void ExpectSame(const Routing& expected, const Routing& found, const std::string& what) {
  SCOPED_TRACE(what);
  EXPECT_EQ(GatingName(found.gating), GatingName(expected.gating));
  EXPECT_EQ(found.normalize, expected.normalize);
  EXPECT_EQ(ScaleOf(found), ScaleOf(expected));
  EXPECT_EQ(std::max(1u, found.groups), std::max(1u, expected.groups));
  if (expected.groups > 1) {
    EXPECT_EQ(found.groups_used, expected.groups_used);
  }
  EXPECT_EQ(found.expert_count, expected.expert_count);
  EXPECT_EQ(found.top_k, expected.top_k);
}

struct Case {
  std::string layout;
  bool silent;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.layout; }

class RoutingOfFamily : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    // Enough experts for the eight groups of DeepSeek-V3's class.
    const fixtures::Options options = {.experts = 16};
    ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam().layout, Source(), options));
    if (!GetParam().silent) return;
    Json config = Json::parse(moepack::cli::ReadFile(Source() / "config.json"));
    Silence(config);
    moepack::cli::WriteAll(Source() / "config.json", config.dump());
  }
  fs::path Source() const { return workspace_ / "source"; }

  // The routing of every layer that the runtime has, and the tensors of its biases.
  void ExpectRuntime(const Routing& expected, const fs::path& path) const {
    const auto weights = moepack::runtime::LoadWeights(path.string(), {});
    ASSERT_TRUE(weights) << weights.error().message;
    const auto spec = moepack::ReadModelSpec((*weights)->path, (*weights)->metadata);
    ASSERT_TRUE(spec) << spec.error().message;
    const auto model = moepack::MoeModel::Open(Source());
    ASSERT_TRUE(model) << model.error().message;
    for (const auto& [layer, experts] : (*weights)->moe_layers) {
      if (layer >= spec->layers) continue;
      // Layers may differ in how many experts a token uses.
      Routing own = expected;
      own.top_k = model->FindLayer(layer)->top_k;
      ExpectSame(own, spec->layer[layer].router, "runtime, " + path.filename().string());
      const std::string block = "blk." + std::to_string(layer) + ".";
      const bool biased = (*weights)->FindTrunk(block + "exp_probs_b.bias") != nullptr ||
                          (*weights)->FindTrunk(block + "exp_probs_b") != nullptr;  // Hy3
      // Where a table names the experts, nothing is chosen by score.
      const bool chooses = !spec->layer[layer].routes_by_table;
      EXPECT_EQ(biased, chooses && expected.bias == moepack::RouterBias::kSelection);
      EXPECT_EQ((*weights)->FindTrunk(block + "ffn_gate_inp.bias") != nullptr,
                expected.bias == moepack::RouterBias::kLogits);
    }
  }

  Workspace workspace_;
};

TEST_P(RoutingOfFamily, IsTheSameInTheCheckpointItsGgufAndTheRuntime) {
  const auto model = moepack::MoeModel::Open(Source());
  ASSERT_TRUE(model) << model.error().message;
  const Routing& expected = model->routing();
  const ToolRun run = workspace_.Moepack("quantize source --recipe BF16 -o full.gguf");
  if (GetParam().silent && model->family().name == kRefusedWhenSilent) {
    EXPECT_EQ(run.status, 4);
    EXPECT_THAT(run.err, HasSubstr("norm_topk_prob: expected true"));
    EXPECT_FALSE(expected.normalize);
    return;
  }
  ASSERT_EQ(run.status, 0) << run.err;
  const auto gguf = moepack::MoeModel::Open(workspace_ / "full.gguf");
  ASSERT_TRUE(gguf) << gguf.error().message;
  ExpectSame(expected, gguf->routing(), "GGUF");
  EXPECT_EQ(gguf->routing().bias, expected.bias);
  if (moepack::FindRuntimeFamily(gguf->config().architecture) == nullptr) return;
  ExpectRuntime(expected, Source());
  ExpectRuntime(expected, workspace_ / "full.gguf");
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& layout : moepack::ConvertibleLayouts()) {
    for (const bool silent : {false, true}) cases.push_back({layout, silent});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Layouts, RoutingOfFamily, testing::ValuesIn(Cases()),
                         [](const auto& tested) {
                           std::string name = tested.param.layout;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name + (tested.param.silent ? "_silent" : "");
                         });

TEST(RoutingOfFamilies, IsTestedForEveryFamilyThatConverts) {
  std::set<std::string> tested, expected;
  for (const std::string& layout : moepack::ConvertibleLayouts())
    tested.insert(fixtures::DescribeCheckpoint(layout).family);
  for (const moepack::GgufConverter& converter : moepack::AllConverters())
    expected.insert(std::string(converter.family));
  EXPECT_EQ(tested, expected);
}

// Families without a converter: the config takes precedence, and the family's row fills in the
// rest.
TEST(RoutingOfFamilies, FallsBackToTheFamilyWhereTheConfigIsSilent) {
  for (const std::string& layout : fixtures::Layouts()) {
    SCOPED_TRACE(layout);
    const fixtures::CheckpointSpec spec = fixtures::DescribeCheckpoint(layout);
    Json document = Json::parse(spec.config);
    Silence(document);
    const auto config = moepack::ParseModelConfig(layout, document.dump());
    ASSERT_TRUE(config) << config.error().message;
    const auto family = moepack::FindFamily(layout, *config);
    ASSERT_TRUE(family) << family.error().message;
    if (!(*family)->routing_exceptions.empty()) continue;
    Routing expected = (*family)->routing;
    expected.expert_count = config->expert_count;
    expected.top_k = config->top_k;
    ExpectSame(expected, moepack::ResolveRouting(**family, *config), "silent");
  }
}

}  // namespace
