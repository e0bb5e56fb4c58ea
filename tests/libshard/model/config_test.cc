#include "libshard/model/config.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

ModelConfig Parse(std::string_view text) {
  Result<ModelConfig> config = ParseModelConfig("config.json", text);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : ModelConfig();
}

Error ParseError(std::string_view text) {
  Result<ModelConfig> config = ParseModelConfig("config.json", text);
  EXPECT_FALSE(config) << text;
  return config ? Error{} : config.error();
}

TEST(ModelConfig, ReadsAFlatConfig) {
  const ModelConfig config = Parse(R"({
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
    "num_hidden_layers": 61, "num_nextn_predict_layers": 1, "hidden_size": 7168,
    "vocab_size": 129280, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8,
    "topk_group": 4, "scoring_func": "sigmoid", "norm_topk_prob": true,
    "routed_scaling_factor": 2.5, "quantization_config": {"quant_method": "fp8"}})");
  EXPECT_EQ(config.architecture, "DeepseekV3ForCausalLM");
  EXPECT_EQ(config.model_type, "deepseek_v3");
  EXPECT_EQ(config.text_architecture, "");
  EXPECT_EQ(config.layers, 61u);
  EXPECT_EQ(config.mtp_layers, 1u);
  EXPECT_EQ(config.hidden_size, 7168u);
  EXPECT_EQ(config.vocab_size, 129280u);
  EXPECT_EQ(config.expert_intermediate_size, 2048u);
  EXPECT_EQ(config.expert_count, 256u);
  EXPECT_EQ(config.expert_count_key, "n_routed_experts");
  EXPECT_EQ(config.top_k, 8u);
  EXPECT_TRUE(config.top_k_per_layer.empty());
  EXPECT_EQ(config.shared_experts, 1u);
  EXPECT_EQ(config.routing.groups, 8u);
  EXPECT_EQ(config.routing.groups_used, 4u);
  EXPECT_EQ(config.routing.gating, Gating::kSigmoid);
  EXPECT_EQ(config.routing.normalize, true);
  EXPECT_EQ(config.routing.scale, 2.5);
  EXPECT_EQ(config.quant_method, "fp8");
  EXPECT_EQ(config.quant_bits, 0u);
}

TEST(ModelConfig, LeavesUnstatedFieldsEmpty) {
  const ModelConfig config = Parse(R"({"num_local_experts": 8, "intermediate_size": 14336})");
  EXPECT_EQ(config.architecture, "");
  EXPECT_EQ(config.top_k, 0u);
  EXPECT_EQ(config.routing.gating, std::nullopt);
  EXPECT_FALSE(config.routing.normalize.has_value());
  EXPECT_FALSE(config.routing.scale.has_value());
  EXPECT_EQ(config.expert_intermediate_size, 14336u);
}

TEST(ModelConfig, PrefersTheNestedTextConfig) {
  for (const std::string key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    const ModelConfig config = Parse(Cat(R"({"architectures": ["Outer"], "model_type": "outer",
      "num_experts": 1, "vocab_size": 7, ")",
                                         key, R"(": {"architectures": ["Inner"],
      "model_type": "inner", "num_experts": 64, "num_experts_per_tok": 6}})"));
    EXPECT_EQ(config.architecture, "Outer");
    EXPECT_EQ(config.text_architecture, "Inner");
    EXPECT_EQ(config.model_type, "outer");
    EXPECT_EQ(config.text_model_type, "inner");
    EXPECT_EQ(config.expert_count, 64u);
    EXPECT_EQ(config.expert_count_key, key + ".num_experts");
    EXPECT_EQ(config.vocab_size, 7u) << "the root fills in what the text config leaves out";
  }
}

TEST(ModelConfig, FollowsTwoLevelsOfNesting) {
  const ModelConfig config = Parse(R"({"thinker_config": {"model_type": "thinker",
    "text_config": {"model_type": "text", "num_experts": 128}}})");
  EXPECT_EQ(config.expert_count, 128u);
  EXPECT_EQ(config.text_model_type, "text");
  EXPECT_EQ(config.expert_count_key, "thinker_config.text_config.num_experts");
}

TEST(ModelConfig, ReadsTheFeedForwardConfigOfDbrx) {
  const ModelConfig config = Parse(R"({"model_type": "dbrx", "n_layers": 40, "d_model": 6144,
    "ffn_config": {"model_type": "", "ffn_hidden_size": 10752, "moe_num_experts": 16,
                   "moe_top_k": 4}})");
  EXPECT_EQ(config.model_type, "dbrx");
  EXPECT_EQ(config.layers, 40u);
  EXPECT_EQ(config.hidden_size, 6144u);
  EXPECT_EQ(config.expert_count, 16u);
  EXPECT_EQ(config.top_k, 4u);
  EXPECT_EQ(config.expert_intermediate_size, 10752u);
  EXPECT_EQ(config.expert_count_key, "ffn_config.moe_num_experts");
}

TEST(ModelConfig, KnowsEverySpellingOfTheCounts) {
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts",
                          "num_routed_experts", "moe_num_experts", "num_moe_experts"}) {
    EXPECT_EQ(Parse(Cat("{\"", key, "\": 32}")).expert_count, 32u) << key;
  }
  for (const char* key : {"num_experts_per_tok", "num_experts_per_token", "experts_per_token",
                          "moe_topk", "moe_top_k", "moe_k", "top_k_experts", "moe_router_topk"}) {
    EXPECT_EQ(Parse(Cat("{\"num_experts\": 8, \"", key, "\": 2}")).top_k, 2u) << key;
  }
}

TEST(ModelConfig, DoesNotMistakeTheSamplingParameterForTopK) {
  EXPECT_EQ(Parse(R"({"num_experts": 64, "top_k": 50})").top_k, 0u);
}

TEST(ModelConfig, ReadsTopKPerLayer) {
  const ModelConfig config = Parse(
      R"({"num_hidden_layers": 3, "num_experts": 64, "moe_topk": [8, 4, 8],
          "num_shared_expert": [1, 1, 1], "moe_intermediate_size": [3072, 3072, 3072]})");
  EXPECT_EQ(config.top_k, 8u);
  EXPECT_EQ(config.top_k_per_layer, (std::vector<uint32_t>{8, 4, 8}));
  EXPECT_EQ(config.shared_experts, 1u);
  EXPECT_EQ(config.expert_intermediate_size, 3072u);
}

TEST(ModelConfig, CountsASharedExpertGivenByItsWidth) {
  EXPECT_EQ(Parse(R"({"shared_expert_intermediate_size": 512})").shared_experts, 1u);
  EXPECT_EQ(Parse(R"({"shared_expert_intermediate_size": 0})").shared_experts, 0u);
  EXPECT_EQ(Parse(R"({"n_shared_experts": 0, "shared_intermediate_size": 9})").shared_experts, 0u);
}

TEST(ModelConfig, TreatsNullAsAbsent) {
  const ModelConfig config = Parse(R"({"architectures": null, "num_experts": null,
    "top_k_experts": null, "n_group": null, "routed_scaling_factor": null})");
  EXPECT_EQ(config.expert_count, 0u);
  EXPECT_EQ(config.routing.groups, std::nullopt);
  EXPECT_FALSE(config.routing.scale.has_value());
}

TEST(ModelConfig, HonorsADisabledExpertBlock) {
  EXPECT_EQ(Parse(R"({"enable_moe_block": false, "num_experts": 128})").expert_count, 0u);
  EXPECT_EQ(Parse(R"({"enable_moe_block": true, "num_experts": 128})").expert_count, 128u);
}

TEST(ModelConfig, ReadsTheWidthOfPackedIntegers) {
  EXPECT_EQ(Parse(R"({"quantization_config": {"quant_method": "gptq", "bits": 8}})").quant_bits,
            8u);
  EXPECT_EQ(Parse(R"({"quantization": {"group_size": 64, "bits": 4}})").quant_bits, 4u);
  const ModelConfig nested = Parse(R"({"text_config": {"quantization_config": {
    "quant_method": "compressed-tensors", "config_groups": {
      "group_0": {"weights": {"num_bits": 8}}, "group_1": {"weights": {"num_bits": 4}},
      "group_2": {"weights": null}}}}})");
  EXPECT_EQ(nested.quant_method, "compressed-tensors");
  EXPECT_EQ(nested.quant_bits, 4u);
  EXPECT_EQ(Parse(R"({"expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}})")
                .quant_bits,
            4u);
}

TEST(ModelConfig, UnderstandsOtherNamesOfTheGatingFunction) {
  EXPECT_EQ(Parse(R"({"score_function": "sigmoid"})").routing.gating, Gating::kSigmoid);
  EXPECT_EQ(Parse(R"({"scoring_func": "noaux_tc"})").routing.gating, Gating::kSigmoid);
  EXPECT_EQ(Parse(R"({"gating": true})").routing.gating, std::nullopt);
  EXPECT_EQ(Parse(R"({"moe_normalize_expert_weights": 1})").routing.normalize, true);
  EXPECT_EQ(Parse(R"({"moe_routed_scaling_factor": 2.5})").routing.scale, 2.5);
}

TEST(ModelConfig, RefusesNaNWithThePlace) {
  const Error error = ParseError(R"({"a": NaN})");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, "config.json: byte 6: expected a number, found NaN");
  EXPECT_FALSE(error.hint.empty());
}

TEST(ModelConfig, AcceptsInfinityOnlyWhereItIsNotRead) {
  const ModelConfig config = Parse(R"({"num_experts": 8, "time_step_limit": [0.0, Infinity],
    "low": -Infinity, "text": "NaN Infinity \" NaN"})");
  EXPECT_EQ(config.expert_count, 8u);
  EXPECT_EQ(ParseError(R"({"num_experts": Infinity})").message,
            "config.json: num_experts: expected a whole number from 0 to 1048576, "
            "found \"Infinity\"");
}

TEST(ModelConfig, RefusesValuesThatAreNotCounts) {
  for (const char* value :
       {"-1", "1.5", "1048577", "18446744073709551615", "\"8\"", "{}", "[]", "[8, null]", "true"}) {
    const Error error = ParseError(Cat("{\"num_hidden_layers\": 2, \"num_experts\": ", value, "}"));
    EXPECT_EQ(error.code, Code::kCorrupt) << value;
    EXPECT_TRUE(error.message.starts_with("config.json: num_experts: expected ")) << error.message;
  }
}

TEST(ModelConfig, RefusesTwoPoolsOfExperts) {
  const Error error = ParseError(R"({"num_hidden_layers": 54, "moe_num_experts": [64, 64]})");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "config.json: moe_num_experts: expected one pool of experts, found 2 pools (one per "
            "modality), which cannot be split together");
}

TEST(ModelConfig, LetsADenseModelHaveNoExpertsPerToken) {
  EXPECT_TRUE(ParseModelConfig("config.json", R"({"num_experts": 0, "num_experts_per_tok": 0})"));
}

TEST(ModelConfig, RefusesAnImpossibleTopK) {
  EXPECT_EQ(
      ParseError(R"({"num_experts": 4, "num_experts_per_tok": 5})").message,
      "config.json: num_experts_per_tok: expected at most the number of experts (4), found 5");
  EXPECT_EQ(ParseError(R"({"num_experts": 4, "num_experts_per_tok": 0})").message,
            "config.json: num_experts_per_tok: expected at least one expert per token, found 0");
  EXPECT_EQ(ParseError(R"({"num_hidden_layers": 3, "num_experts": 4, "moe_topk": [1, 2]})").message,
            "config.json: moe_topk: expected one number per layer (3), found an array of 2 values");
}

TEST(ModelConfig, RefusesWrongTypesOfNamesAndSwitches) {
  EXPECT_EQ(ParseError(R"({"architectures": "X"})").message,
            "config.json: architectures: expected a list of names, found \"X\"");
  EXPECT_EQ(ParseError(R"({"model_type": 3})").message,
            "config.json: model_type: expected a string, found 3");
  EXPECT_EQ(ParseError(R"({"norm_topk_prob": "yes"})").message,
            "config.json: norm_topk_prob: expected true or false, found \"yes\"");
  EXPECT_EQ(ParseError(R"({"norm_topk_prob": 1})").message,
            "config.json: norm_topk_prob: expected true or false, found 1");
  EXPECT_EQ(ParseError(R"({"enable_moe_block": 0, "num_experts": 8})").message,
            "config.json: enable_moe_block: expected true or false, found 0");
  EXPECT_EQ(ParseError(R"({"text_config": 5})").message,
            "config.json: text_config: expected an object, found 5");
  EXPECT_EQ(ParseError(R"({"thinker_config": {"text_config": ["x"]}})").message,
            "config.json: thinker_config.text_config: expected an object, found an array of 1 "
            "value");
  EXPECT_EQ(ParseError(R"({"block_configs": "x"})").message,
            "config.json: block_configs: expected a list of objects, found \"x\"");
  EXPECT_EQ(ParseError(R"({"block_configs": [{"block_type": "moe"}, {"x": 1}]})").message,
            "config.json: block_configs[1].block_type: expected a word, found none");
  EXPECT_EQ(Parse(R"({"block_configs": [{"ffn": 1}], "num_experts": 4})").expert_count, 4u);
  EXPECT_EQ(ParseError(R"({"scoring_func": 1})").message,
            "config.json: scoring_func: expected a string, found 1");
  EXPECT_EQ(ParseError(R"({"routed_scaling_factor": 1e39})").message,
            "config.json: routed_scaling_factor: expected a number that fits 32-bit floating "
            "point, found 1e+39");
  EXPECT_EQ(ParseError(R"({"routed_scaling_factor": "2"})").message,
            "config.json: routed_scaling_factor: expected a number, found \"2\"");
  EXPECT_EQ(ParseError(R"({"quantization_config": 4})").message,
            "config.json: quantization_config: expected an object, found 4");
  EXPECT_EQ(ParseError("[]").message,
            "config.json: expected a JSON object, found an array of 0 values");
}

// With an unknown function the family's would be used, and the model would run differently.
TEST(Config, RefusesAnUnknownRouterFunction) {
  const Error error = ParseError(R"({"text_config": {"score_function": "tanh"}})");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "config.json: text_config.score_function: expected softmax, sigmoid, "
            "softmax-after-topk, sigmoid-after-topk, sqrtsoftplus, found \"tanh\"");
}

Routing RoutingOf(const char* family, const std::string& text) {
  for (const Family& known : AllFamilies()) {
    if (known.name == family) return ResolveRouting(known, Parse(text));
  }
  ADD_FAILURE() << family;
  return {};
}

TEST(ResolveRouting, TakesWhatTheConfigDoesNotStateFromTheFamily) {
  const Routing silent =
      RoutingOf("deepseek-v3", R"({"n_routed_experts": 16, "num_experts_per_tok": 4})");
  EXPECT_EQ(silent.expert_count, 16u);
  EXPECT_EQ(silent.top_k, 4u);
  EXPECT_EQ(silent.gating, Gating::kSigmoid);
  EXPECT_TRUE(silent.normalize);
  EXPECT_EQ(silent.scale, 2.5);
  EXPECT_EQ(silent.groups, 8u);
  EXPECT_EQ(silent.groups_used, 4u);
  const Routing stated = RoutingOf("deepseek-v3", R"({"n_group": 1, "topk_group": 1,
      "scoring_func": "softmax", "norm_topk_prob": false, "routed_scaling_factor": 2})");
  EXPECT_EQ(stated.gating, Gating::kSoftmax);
  EXPECT_FALSE(stated.normalize);
  EXPECT_EQ(stated.scale, 2.0);
  EXPECT_EQ(stated.groups, 1u);
  EXPECT_EQ(stated.groups_used, 1u);
}

TEST(ResolveRouting, DoesNotGuessGroupsForKimi) {
  for (const char* text :
       {R"({"model_type": "kimi_k2"})", R"({"text_config": {"model_type": "kimi_k2"}})"}) {
    const Routing routing = RoutingOf("deepseek-v3", text);
    EXPECT_EQ(routing.groups, 0u) << text;
    EXPECT_EQ(routing.scale, 2.5) << text;
  }
  EXPECT_EQ(RoutingOf("deepseek-v3", R"({"model_type": "kimi_k2", "n_group": 8})").groups, 8u);
}

}  // namespace
}  // namespace moepack
