#include "libshard/convert/base_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/config.h"
#include "libshard/model/config_fields.h"

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

constexpr const char* kPlain = R"({"num_hidden_layers": 2, "max_position_embeddings": 64,
  "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 5)";

HfConfig Config(const std::string& more) {
  return HfConfig::Parse("config.json", Cat(kPlain, more, "}")).value();
}

// The keys of what the config states, for a family that has softmax and nothing else.
RoutingToWrite RoutingOf(const std::string& text) {
  const StatedRouting stated = ParseModelConfig("config.json", text).value().routing;
  return {Overlay({}, stated), stated};
}

GgufMetadata KeysOf(const std::string& more, uint32_t blocks = 2) {
  GgufMetadata metadata;
  ArchKeys keys("arch", metadata);
  EXPECT_TRUE(AddBaseKeys(Config(more), RoutingOf(Cat(kPlain, more, "}")), blocks, keys));
  return metadata;
}

std::string ErrorOf(const std::string& text) {
  GgufMetadata metadata;
  ArchKeys keys("arch", metadata);
  const Status status = AddBaseKeys(HfConfig::Parse("config.json", text).value(), {}, 1, keys);
  return status ? "" : status.error().message;
}

TEST(BaseKeys, HaveExactlyTheTypesThatTheRuntimeReads) {
  const GgufMetadata metadata = KeysOf(R"(, "head_dim": 4, "n_group": 2, "topk_group": 1)", 3);
  const std::pair<const char*, uint32_t> counts[] = {
      {"block_count", 3},          {"context_length", 64},
      {"embedding_length", 8},     {"feed_forward_length", 16},
      {"attention.head_count", 4}, {"attention.head_count_kv", 2},
      {"expert_count", 8},         {"expert_used_count", 2},
      {"expert_group_count", 2},   {"expert_group_used_count", 1},
      {"attention.key_length", 4}, {"attention.value_length", 4}};
  for (const auto& [key, count] : counts) {
    const GgufValue* value = metadata.Find(Cat("arch.", key));
    ASSERT_NE(value, nullptr) << key;
    EXPECT_EQ(*value, GgufValue::U32(count)) << key;
  }
  EXPECT_EQ(*metadata.Find("arch.attention.layer_norm_rms_epsilon"), GgufValue::F32(1e-5f));
}

// config.json is read both for the plan and for the GGUF; a file that spells a field in two ways
// gives both the same number.
TEST(BaseKeys, AgreeWithTheNumbersOfTheModel) {
  const std::string text = Cat(kPlain, R"(, "num_experts": 7, "text_config": {"num_experts": 6,
      "num_experts_per_token": 3, "n_layers": 4, "n_embd": 16, "topk_group": 2, "n_group": 3}})");
  const ModelConfig model = ParseModelConfig("config.json", text).value();
  EXPECT_EQ(model.expert_count, 6u);
  EXPECT_EQ(model.expert_count_key, "text_config.num_experts");
  const HfConfig config = HfConfig::Parse("config.json", text).value();
  GgufMetadata metadata;
  ArchKeys keys("arch", metadata);
  ASSERT_TRUE(AddBaseKeys(config, RoutingOf(text), 4, keys));
  EXPECT_EQ(ReadShape(config).value().layers, model.layers);
  EXPECT_EQ(*metadata.Find("arch.expert_count"), GgufValue::U32(model.expert_count));
  EXPECT_EQ(*metadata.Find("arch.expert_used_count"), GgufValue::U32(model.top_k));
  EXPECT_EQ(*metadata.Find("arch.embedding_length"), GgufValue::U32(model.hidden_size));
  EXPECT_EQ(*metadata.Find("arch.expert_group_count"), GgufValue::U32(*model.routing.groups));
  EXPECT_EQ(*metadata.Find("arch.expert_group_used_count"),
            GgufValue::U32(*model.routing.groups_used));
}

TEST(BaseKeys, KnowEveryNameOfTheRoutersFunction) {
  for (const char* name : fields::kGating) {
    const std::string more = Cat(", \"", name, "\": \"Sigmoid\"");
    EXPECT_EQ(*KeysOf(more).Find("arch.expert_gating_func"), GgufValue::U32(2)) << name;
    EXPECT_EQ(ParseModelConfig("c", Cat(kPlain, more, "}")).value().routing.gating,
              Gating::kSigmoid)
        << name;
  }
}

TEST(BaseKeys, LeaveOutWhatTheConfigDoesNotState) {
  const GgufMetadata metadata = KeysOf(R"(, "head_dim": null)");
  for (const char* key : {"attention.key_length", "attention.value_length", "expert_group_count",
                          "expert_gating_func", "attention.causal"}) {
    EXPECT_EQ(metadata.Find(Cat("arch.", key)), nullptr) << key;
  }
  EXPECT_EQ(KeysOf(R"(, "is_causal": true)").Find("arch.attention.causal"), nullptr);
  EXPECT_EQ(*KeysOf(R"(, "is_causal": false)").Find("arch.attention.causal"),
            GgufValue::Bool(false));
}

TEST(BaseKeys, NumberTheGatingFunctions) {
  const std::pair<const char*, uint32_t> rows[] = {
      {"softmax", 1}, {"sigmoid", 2}, {"sqrtsoftplus", 4}};
  for (const auto& [name, id] : rows) {
    const GgufMetadata metadata = KeysOf(Cat(R"(, "scoring_func": ")", name, "\""));
    EXPECT_EQ(*metadata.Find("arch.expert_gating_func"), GgufValue::U32(id));
  }
}

TEST(BaseKeys, NameARequiredFieldThatIsMissing) {
  EXPECT_THAT(ErrorOf(R"({"hidden_size": 8})"), HasSubstr("max_position_embeddings or n_ctx"));
  EXPECT_THAT(
      ErrorOf(R"({"hidden_size": 8, "n_ctx": 8, "n_head": 2})"),
      HasSubstr("rms_norm_eps or norm_eps or layernorm_epsilon: expected a number, found nothing"));
}

TEST(HfShapeOf, TakesTheHeadSizeFromTheConfigElseFromTheWidth) {
  EXPECT_EQ(ReadShape(Config(""))->head_size, 2u);
  EXPECT_EQ(ReadShape(Config(R"(, "head_dim": null)"))->head_size, 2u) << "null counts as absent";
  EXPECT_EQ(ReadShape(Config(R"(, "head_dim": 64)"))->head_size, 64u);
  const auto without = HfConfig::Parse("c", R"({"num_hidden_layers": 1, "hidden_size": 8,
    "num_attention_heads": 4, "vocab_size": 3})");
  EXPECT_EQ(ReadShape(*without)->kv_heads, 4u) << "by default as many as query heads";
}

TEST(HfShapeOf, RefusesAnImpossibleVocabulary) {
  const auto config = HfConfig::Parse("c", R"({"num_hidden_layers": 1, "hidden_size": 8,
    "num_attention_heads": 4, "vocab_size": 4000000000})");
  EXPECT_THAT(ReadShape(*config).error().message,
              HasSubstr("vocab_size: expected at most 16777216, found 4000000000"));
}

TEST(HfShapeOf, RefusesAModelWithoutHeadsOrLayers) {
  for (const char* key : {"num_attention_heads", "num_hidden_layers"}) {
    const std::string rest = key == std::string("num_hidden_layers") ? R"("num_attention_heads": 4)"
                                                                     : R"("num_hidden_layers": 4)";
    const auto config = HfConfig::Parse(
        "c", Cat(R"({"hidden_size": 8, "vocab_size": 3, ")", key, "\": 0, ", rest, "}"));
    const auto shape = ReadShape(*config);
    ASSERT_FALSE(shape) << key;
    EXPECT_THAT(shape.error().message, HasSubstr("expected at least one, found 0"));
  }
}

// "" or the error for these numbers; 0 means no key.
std::string CountsError(uint32_t experts, uint32_t used, uint32_t groups = 0, uint32_t chosen = 0) {
  GgufMetadata metadata;
  const std::pair<const char*, uint32_t> counts[] = {{"expert_count", experts},
                                                     {"expert_used_count", used},
                                                     {"expert_group_count", groups},
                                                     {"expert_group_used_count", chosen}};
  for (const auto& [key, count] : counts) {
    if (count > 0) metadata.Set(Cat("arch.", key), GgufValue::U32(count));
  }
  const Status status = CheckExpertCounts(Config(""), "arch", metadata);
  EXPECT_TRUE(status || status.error().code == Code::kUnsupported);
  return status ? "" : status.error().message;
}

TEST(CheckExpertCounts, AcceptsCountsThatTheRuntimeLoads) {
  EXPECT_EQ(CountsError(8, 2), "");
  EXPECT_EQ(CountsError(8, 8, 1, 1), "");
  EXPECT_EQ(CountsError(256, 8, 8, 4), "");
  EXPECT_EQ(CountsError(1024, 1), "");
}

TEST(CheckExpertCounts, RefusesCountsThatAbortTheRuntime) {
  EXPECT_THAT(CountsError(1025, 8), HasSubstr("experts: expected at most 1024, since the runtime"));
  EXPECT_THAT(CountsError(8, 0), HasSubstr("experts per token: expected 1 to 8"));
  EXPECT_THAT(CountsError(8, 9), HasSubstr("found 9"));
  EXPECT_THAT(CountsError(8, 2, 8, 4), HasSubstr("n_group: expected fewer than 8"));
  EXPECT_THAT(CountsError(1, 1, 1, 1), HasSubstr("n_group: expected fewer than 1"));
  EXPECT_THAT(CountsError(8, 2, 3, 1), HasSubstr("n_group: expected a divisor of 8"));
  EXPECT_THAT(CountsError(8, 2, 2, 2), HasSubstr("topk_group: expected 1 to 1"));
  EXPECT_THAT(CountsError(8, 2, 2, 0), HasSubstr("found 0"));
}

TEST(CheckSquareHeads, RefusesHeadsThatDoNotFillTheHiddenSize) {
  const HfConfig config = *HfConfig::Parse("c", "{}");
  HfShape shape;
  shape.hidden = 8;
  shape.heads = 2;
  shape.head_size = 4;
  EXPECT_TRUE(CheckSquareHeads(config, shape));
  shape.head_size = 3;
  EXPECT_THAT(CheckSquareHeads(config, shape).error().message,
              HasSubstr("expected hidden size / heads (8 / 2)"));
}

}  // namespace

}  // namespace moepack
