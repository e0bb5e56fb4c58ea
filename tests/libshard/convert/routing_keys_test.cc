#include "libshard/convert/routing_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// All keys of a model with this routing.
GgufMetadata RoutingKeysOf(const std::string& architecture, const RoutingToWrite& model) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(architecture));
  ArchKeys keys(architecture, metadata);
  AddGroupKeys(model, keys);
  AddGatingKey(model, keys);
  AddWeightKeys(model.routing, keys);
  return metadata;
}

std::vector<std::string> Names(const GgufMetadata& metadata) {
  std::vector<std::string> names;
  for (const GgufEntry& entry : metadata.entries()) names.push_back(entry.key);
  names.erase(names.begin());  // general.architecture
  return names;
}

TEST(RoutingKeys, AreWrittenIfTheGraphReadsThemOrTheConfigStatesThem) {
  const Routing sigmoid = {.gating = Gating::kSigmoid, .normalize = false};
  EXPECT_THAT(Names(RoutingKeysOf("deepseek2", {sigmoid, {}})),
              ElementsAre("deepseek2.expert_gating_func", "deepseek2.expert_weights_scale"));
  EXPECT_THAT(Names(RoutingKeysOf("glm4moe", {sigmoid, {}})),
              ElementsAre("glm4moe.expert_gating_func", "glm4moe.expert_weights_scale",
                          "glm4moe.expert_weights_norm"));
  EXPECT_THAT(Names(RoutingKeysOf("minimax-m2", {sigmoid, {}})),
              ElementsAre("minimax-m2.expert_gating_func"));
  EXPECT_THAT(Names(RoutingKeysOf("deepseek2", {{.normalize = false}, {}})),
              ElementsAre("deepseek2.expert_weights_scale"))
      << "the graph uses softmax if the key is missing";
  EXPECT_THAT(Names(RoutingKeysOf("qwen3moe", {{}, {}})), IsEmpty());
  StatedRouting stated;
  stated.gating = Gating::kSoftmax;
  stated.groups = 0;
  EXPECT_THAT(Names(RoutingKeysOf("qwen3moe", {{}, stated})),
              ElementsAre("qwen3moe.expert_group_count", "qwen3moe.expert_gating_func"));
  const Routing llama4 = {.gating = Gating::kSigmoidAfterTopK};
  EXPECT_THAT(Names(RoutingKeysOf("llama4", {llama4, stated})),
              ElementsAre("llama4.expert_group_count"))
      << "llama.cpp has no number for the gating function of llama4";
}

TEST(RoutingKeys, HaveTheNumbersOfTheModel) {
  const GgufMetadata keys = RoutingKeysOf(
      "deepseek2",
      {{.gating = Gating::kSigmoid, .normalize = true, .scale = 1.8, .groups = 8, .groups_used = 4},
       {}});
  EXPECT_EQ(*keys.Find("deepseek2.expert_group_count"), GgufValue::U32(8));
  EXPECT_EQ(*keys.Find("deepseek2.expert_group_used_count"), GgufValue::U32(4));
  EXPECT_EQ(*keys.Find("deepseek2.expert_gating_func"), GgufValue::U32(2));
  EXPECT_EQ(*keys.Find("deepseek2.expert_weights_scale"), GgufValue::F32(1.8f));
  EXPECT_EQ(*keys.Find("deepseek2.expert_weights_norm"), GgufValue::Bool(true));
}

struct Checked {
  Checked(const std::string& architecture, const Routing& model, const std::string& config = "{}") {
    const Status status = CheckGraphRouting(HfConfig::Parse("c", config).value(), model,
                                            RoutingKeysOf(architecture, {model, {}}), warnings);
    if (status) return;
    EXPECT_EQ(status.error().code, Code::kUnsupported);
    error = status.error().message;
  }
  std::string error;
  std::vector<std::string> warnings;
};

TEST(CheckGraphRouting, AcceptsAModelThatTheGraphRoutesCorrectly) {
  EXPECT_EQ(Checked("qwen3moe", {}).error, "");
  EXPECT_EQ(Checked("qwen3moe", {.scale = 1}).error, "");
  EXPECT_EQ(Checked("deepseek2", {.gating = Gating::kSigmoid, .scale = 1.8}).error, "");
  EXPECT_EQ(Checked("gpt-oss", {.gating = Gating::kSoftmaxAfterTopK, .normalize = true}).error, "")
      << "these weights sum to 1";
}

TEST(CheckGraphRouting, RefusesRoutingThatTheGraphDoesDifferently) {
  EXPECT_EQ(Checked("qwen3moe", {.normalize = false}).error,
            "c: norm_topk_prob: expected true, which is what the runtime does for this "
            "architecture, found false");
  EXPECT_THAT(Checked("olmoe", {}, R"({"norm_topk_prob": true})").error,
              HasSubstr("norm_topk_prob: expected false"));
  EXPECT_THAT(Checked("llama", {.gating = Gating::kSigmoid},
                      R"({"text_config": {"scoring_func": "sigmoid"}})")
                  .error,
              HasSubstr("c: text_config.scoring_func: expected softmax, which is what the runtime "
                        "does for this architecture, found sigmoid"));
  EXPECT_THAT(Checked("llama", {.scale = 2.5}).error,
              HasSubstr("routed_scaling_factor: expected 1, which"));
}

TEST(CheckGraphRouting, WarnsOfGroupsThatTheGraphScoresDifferently) {
  Routing model = {.normalize = false, .groups = 2, .groups_used = 1};
  EXPECT_THAT(Checked("deepseek2", model).warnings, IsEmpty());
  model.group_score = GroupScore::kBest;
  EXPECT_THAT(Checked("deepseek2", model).warnings,
              ElementsAre(HasSubstr("c: n_group: expected 1, found 2; the runtime chooses groups "
                                    "by the sum of their two best experts")));
  model.groups = 1;
  EXPECT_THAT(Checked("deepseek2", model).warnings, IsEmpty());
}

}  // namespace
}  // namespace moepack
