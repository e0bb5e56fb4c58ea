#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

// Layer 0 has full attention and is dense, layer 1 has a window, experts and four query heads.
ConvertSample Step() {
  ConvertSample sample = LayeredSample("Step3p5ForCausalLM", "step3p5", "moe_num_experts");
  sample.config.erase("num_key_value_heads");
  sample.config.erase("first_k_dense_replace");
  sample.config.erase("num_experts_per_tok");
  sample.config.update(Json::parse(R"({"moe_top_k": 1, "num_attention_groups": 1, "head_dim": 2,
      "attention_other_setting": {"num_attention_heads": 4, "num_attention_groups": 1},
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
      "sliding_window": 4, "rope_theta": [5000, 100], "share_expert_dim": 2,
      "moe_router_activation": "sigmoid", "num_nextn_predict_layers": 1,
      "norm_expert_weight": true})"));
  AddModel(sample);
  for (const std::string number : {"0", "1"}) {
    const std::string at = "model.layers." + number + ".";
    const uint64_t heads = number == "1" ? 4 : 2;
    AddLayerNorms(sample, at);
    sample.Add(at + "self_attn.q_proj.weight", {2 * heads, 4});
    for (const char* part : {"k", "v"})
      sample.Add(at + "self_attn." + part + "_proj.weight", {2, 4});
    sample.Add(at + "self_attn.o_proj.weight", {4, 2 * heads});
    sample.Add(at + "self_attn.g_proj.weight", {heads, 4});
  }
  AddDenseMlp(sample, "model.layers.0.mlp.");
  const std::string at = "model.layers.1.";
  sample.Add(at + "moe.gate.weight", {2, 4});
  sample.Add(at + "moe.router_bias", {2});
  for (const char* part : {"gate", "up"})
    sample.Add(at + "moe." + part + "_proj.weight", {2, 2, 4});
  sample.Add(at + "moe.down_proj.weight", {2, 4, 2});
  AddDenseMlp(sample, at + "share_expert.");
  return sample;
}

TEST(Step35, WritesHeadsAndWindowsLayerByLayer) {
  const GgufMetadata keys = ConvertedKeys(Step());
  EXPECT_THAT(keys.Find("step35.attention.head_count")->AsUints(), Optional(ElementsAre(2, 4)));
  EXPECT_THAT(keys.Find("step35.attention.head_count_kv")->AsUints(), Optional(ElementsAre(1, 1)));
  EXPECT_EQ(*keys.Find("step35.attention.sliding_window_pattern"), GgufValue::Bools({false, true}));
  EXPECT_EQ(*keys.Find("step35.rope.freq_base"), GgufValue::F32(5000));
  EXPECT_EQ(*keys.Find("step35.rope.freq_base_swa"), GgufValue::F32(100));
  EXPECT_EQ(keys.Uint("step35.expert_gating_func"), 2u);
}

TEST(Step35, AddsOneToEveryNorm) {
  ConvertSample sample = Step();
  const GgufModel model = Converted(sample);
  std::vector<float> expected = sample.Values("model.layers.1.input_layernorm.weight");
  for (float& value : expected) value += 1;
  EXPECT_EQ(sample.Values(model, "blk.1.attn_norm.weight"), expected);
}

TEST(Step35, WritesTheLimitsOfActivations) {
  ConvertSample sample = Step();
  sample.config["swiglu_limits"] = {nullptr, 7, 1};
  const GgufMetadata keys = ConvertedKeys(sample);
  EXPECT_EQ(*keys.Find("step35.swiglu_clamp_exp"), GgufValue::F32s(std::vector<float>{0, 7}));
  EXPECT_EQ(keys.Find("step35.swiglu_clamp_shexp"), nullptr);
}

// A dense block after the last layer, with full attention like layer 0, unless its list says
// otherwise.
void AddPrediction(ConvertSample& sample) {
  const std::string at = "model.layers.2.";
  AddLayerNorms(sample, at);
  sample.Add(at + "self_attn.q_proj.weight", {4, 4});
  for (const char* part : {"k", "v"}) sample.Add(at + "self_attn." + part + "_proj.weight", {2, 4});
  sample.Add(at + "self_attn.o_proj.weight", {4, 4});
  AddDenseMlp(sample, at + "mlp.");
  for (const char* norm : {"enorm", "hnorm", "transformer.shared_head.norm"})
    sample.Add(at + norm + ".weight", {4});
  sample.Add(at + "eh_proj.weight", {4, 8});
  sample.Add(at + "transformer.shared_head.output.weight", {5, 4});
}

TEST(Step35, KeepsTheBlocksForMultiTokenPrediction) {
  ConvertSample sample = Step();
  AddPrediction(sample);
  sample.config["layer_types"] = {"full_attention", "sliding_attention"};
  sample.config["swiglu_limits"] = {0, 7};
  const GgufModel model = Converted(sample);
  EXPECT_EQ(model.metadata.Uint("step35.block_count"), 3u);
  EXPECT_EQ(model.metadata.Uint("step35.nextn_predict_layers"), 1u);
  EXPECT_THAT(model.metadata.Find("step35.attention.head_count")->AsUints(),
              Optional(ElementsAre(2, 4, 2)));
  EXPECT_EQ(*model.metadata.Find("step35.attention.sliding_window_pattern"),
            GgufValue::Bools({false, true, false}));
  EXPECT_EQ(*model.metadata.Find("step35.swiglu_clamp_exp"),
            GgufValue::F32s(std::vector<float>{0, 7, 0}));
  for (const auto& [source, target] :
       {std::pair("enorm", "enorm"), std::pair("hnorm", "hnorm"),
        std::pair("transformer.shared_head.norm", "shared_head_norm")}) {
    std::vector<float> expected =
        sample.Values(std::string("model.layers.2.") + source + ".weight");
    for (float& value : expected) value += 1;
    EXPECT_EQ(sample.Values(model, std::string("blk.2.nextn.") + target + ".weight"), expected);
  }
  EXPECT_EQ(sample.Values(model, "blk.2.nextn.shared_head_head.weight"),
            sample.Values("model.layers.2.transformer.shared_head.output.weight"));
}

TEST(Step35, DropsThePredictionBlocksWithoutMtp) {
  ConvertSample sample = Step();
  AddPrediction(sample);
  ConvertOptions options;
  options.mtp = false;
  const GgufModel model = Converted(sample, options);
  EXPECT_EQ(model.metadata.Uint("step35.block_count"), 2u);
  EXPECT_EQ(model.metadata.Find("step35.nextn_predict_layers"), nullptr);
  for (const GgufTensor& tensor : model.tensors) EXPECT_FALSE(tensor.name.starts_with("blk.2."));
}

// The error for config.json alone.
std::string StepKeyError(const ConvertSample& sample) {
  ConvertOptions options;
  options.part = ConvertOptions::Part::kKeys;
  const auto keys = sample.Convert(options);
  EXPECT_FALSE(keys);
  return keys ? "" : keys.error().message;
}

TEST(Step35, RefusesWhatTheRuntimeDoesDifferently) {
  ConvertSample sample = Step();
  sample.config["partial_rotary_factors"] = {0.5, 0.5};
  EXPECT_THAT(StepKeyError(sample),
              HasSubstr("partial_rotary_factors: expected 1 in layer 1, found 0.5"));
  sample = Step();
  sample.config["layer_types"] = {"full_attention"};
  EXPECT_THAT(StepKeyError(sample), HasSubstr("layer_types: expected one entry per layer (2)"));
  sample.config["layer_types"] = {"full_attention", "mamba"};
  EXPECT_THAT(StepKeyError(sample), HasSubstr("layer_types[1]: expected sliding_attention or"));
  sample.config.erase("layer_types");
  EXPECT_THAT(StepKeyError(sample), HasSubstr("layer_types: expected the kind of each layer"));
  sample = Step();
  sample.config["attention_other_setting"]["num_attention_groups"] = 3;
  EXPECT_THAT(StepKeyError(sample), HasSubstr("a number of groups that divides"));
  sample = Step();
  sample.config["swiglu_limits"] = {7};
  EXPECT_THAT(StepKeyError(sample), HasSubstr("swiglu_limits: expected a list of at least 2"));
  sample = Step();
  sample.config["rope_theta"] = {5000};
  EXPECT_THAT(StepKeyError(sample), HasSubstr("a number, or one for each layer"));
  sample = Step();
  sample.config["architectures"] = {"Step3p7ForConditionalGeneration"};
  EXPECT_THAT(StepKeyError(sample), HasSubstr("which only llama.cpp's own converter reads"));
}

}  // namespace
}  // namespace moepack
