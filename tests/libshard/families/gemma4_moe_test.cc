#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

// Layer 0 has a window and two key heads of two values, layer 1 full attention and one key head of
// four, whose keys are also the values. Two experts of width 2.
ConvertSample Gemma() {
  ConvertSample sample;
  sample.config = Json::parse(R"({"architectures": ["Gemma4ForCausalLM"],
      "model_type": "gemma4_text", "num_hidden_layers": 2, "hidden_size": 4,
      "num_attention_heads": 2, "num_key_value_heads": 2, "num_global_key_value_heads": 1,
      "head_dim": 2, "global_head_dim": 4, "intermediate_size": 3, "moe_intermediate_size": 2,
      "num_experts": 2, "top_k_experts": 1, "vocab_size": 5, "max_position_embeddings": 64,
      "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8,
      "rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
      "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default",
      "rope_theta": 1e4}}, "final_logit_softcapping": 30.0, "tie_word_embeddings": true})");
  sample.Add("model.embed_tokens.weight", {5, 4});
  sample.Add("model.norm.weight", {4});
  for (const std::string number : {"0", "1"}) {
    const std::string at = "model.layers." + number + ".";
    const uint64_t size = number == "0" ? 2 : 4;
    for (const char* norm :
         {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
          "post_feedforward_layernorm", "post_feedforward_layernorm_1",
          "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"})
      sample.Add(Cat(at, norm, ".weight"), {4});
    sample.Add(at + "layer_scalar", {1});
    for (const char* part : {"q", "k"})
      sample.Add(Cat(at, "self_attn.", part, "_norm.weight"), {size});
    sample.Add(at + "self_attn.q_proj.weight", {2 * size, 4});
    sample.Add(at + "self_attn.k_proj.weight", {4, 4});
    if (number == "0") sample.Add(at + "self_attn.v_proj.weight", {4, 4});
    sample.Add(at + "self_attn.o_proj.weight", {4, 2 * size});
    for (const char* part : {"gate", "up"})
      sample.Add(Cat(at, "mlp.", part, "_proj.weight"), {3, 4});
    sample.Add(at + "mlp.down_proj.weight", {4, 3});
    sample.Add(at + "router.proj.weight", {2, 4});
    sample.Add(at + "router.scale", {4});
    sample.Add(at + "router.per_expert_scale", {2});
    sample.Add(at + "experts.gate_up_proj", {2, 4, 4});
    sample.Add(at + "experts.down_proj", {2, 4, 2});
  }
  sample.tokenizer = Json::parse(R"({"added_tokens": [{"id": 0, "content": "<bos>",
      "special": true}], "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<bos>": 0,
      "a": 1, "b": 2, "ab": 3, "<0x0A>": 4}, "merges": ["a b"]}})");
  sample.tokenizer_config = Json::parse(R"({"bos_token": "<bos>"})");
  return sample;
}

TEST(Gemma4Moe, WritesHeadsAndRopesOfBothKindsOfLayers) {
  const GgufMetadata keys = ConvertedKeys(Gemma());
  EXPECT_THAT(keys.Find("gemma4.attention.head_count_kv")->AsUints(), Optional(ElementsAre(2, 1)));
  EXPECT_EQ(*keys.Find("gemma4.attention.sliding_window_pattern"), GgufValue::Bools({true, false}));
  const std::pair<const char*, uint64_t> expected[] = {{"attention.key_length", 4},
                                                       {"attention.value_length", 4},
                                                       {"attention.key_length_swa", 2},
                                                       {"attention.value_length_swa", 2},
                                                       {"rope.dimension_count", 4},
                                                       {"rope.dimension_count_swa", 2},
                                                       {"attention.sliding_window", 8},
                                                       {"attention.shared_kv_layers", 0},
                                                       {"embedding_length_per_layer_input", 0},
                                                       {"feed_forward_length", 3},
                                                       {"expert_feed_forward_length", 2}};
  for (const auto& [key, value] : expected) EXPECT_EQ(keys.Uint(Cat("gemma4.", key)), value) << key;
  EXPECT_EQ(*keys.Find("gemma4.rope.freq_base"), GgufValue::F32(1e6f));
  EXPECT_EQ(*keys.Find("gemma4.rope.freq_base_swa"), GgufValue::F32(1e4f));
  EXPECT_EQ(*keys.Find("gemma4.final_logit_softcapping"), GgufValue::F32(30));
}

TEST(Gemma4Moe, WritesAHugeRopeFactorForDimensionsThatAreNotRotated) {
  ConvertSample sample = Gemma();
  const GgufModel model = Converted(sample);
  EXPECT_THAT(sample.Values(model, "rope_freqs.weight"), ElementsAre(1, 1e30f));
}

TEST(Gemma4Moe, TreatsScalesOfExpertsAsPartsOfTheExperts) {
  ConvertSample sample = Gemma();
  const GgufModel model = Converted(sample);
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.name != "blk.1.ffn_down_exps.scale") continue;
    EXPECT_EQ(tensor.part, Part::kExpert);
    EXPECT_EQ(tensor.expert_count, 2u);
  }
  EXPECT_EQ(sample.Values(model, "blk.1.ffn_down_exps.scale"),
            sample.Values("model.layers.1.router.per_expert_scale"));
  EXPECT_EQ(sample.Values(model, "blk.0.ffn_gate_inp.scale"),
            sample.Values("model.layers.0.router.scale"));
  EXPECT_EQ(sample.Values(model, "blk.0.layer_output_scale.weight"),
            sample.Values("model.layers.0.layer_scalar"));
}

TEST(Gemma4Moe, OnlyLayersWithFullAttentionMayLackValues) {
  ConvertSample sample = Gemma();
  sample.Remove("layers.0.self_attn.v_proj");
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("layer 0: expected blk.0.attn_v.weight"));
}

TEST(Gemma4Moe, WritesTheTokenizerWithMergesAndTheSpecialTokensOfTheConfig) {
  const GgufMetadata keys = ConvertedKeys(Gemma());
  EXPECT_EQ(keys.String("tokenizer.ggml.model"), "gemma4");
  EXPECT_EQ(keys.Find("tokenizer.ggml.pre"), nullptr);
  EXPECT_EQ(*keys.Find("tokenizer.ggml.merges"),
            GgufValue::Strings(std::vector<std::string>{"a b"}));
  EXPECT_EQ(*keys.Find("tokenizer.ggml.token_type"),
            GgufValue::I32s(std::vector<int32_t>{3, 1, 1, 1, 6}));
  EXPECT_EQ(*keys.Find("tokenizer.ggml.add_bos_token"), GgufValue::Bool(true));
  EXPECT_EQ(*keys.Find("tokenizer.ggml.add_space_prefix"), GgufValue::Bool(false));
}

TEST(Gemma4Moe, RefusesATokenizerOfAnotherKind) {
  ConvertSample sample = Gemma();
  sample.tokenizer["model"]["byte_fallback"] = false;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("expected BPE with byte fallback"));
}

// The error for config.json alone.
Error GemmaKeyError(const ConvertSample& sample) {
  ConvertOptions options;
  options.part = ConvertOptions::Part::kKeys;
  const auto keys = sample.Convert(options);
  EXPECT_FALSE(keys);
  return keys ? Error{} : keys.error();
}

TEST(Gemma4Moe, RefusesWhatTheRuntimeDoesDifferently) {
  const struct {
    const char* key;
    Json value;
    const char* message;
  } cases[] = {
      {"num_kv_shared_layers", 1, "num_kv_shared_layers: expected 0"},
      {"hidden_size_per_layer_input", 2, "hidden_size_per_layer_input: expected 0"},
      {"use_double_wide_mlp", true, "use_double_wide_mlp: expected false"},
      {"hidden_activation", "silu", "hidden_activation: expected gelu_pytorch_tanh"},
      {"num_global_key_value_heads", 3, "a divisor of the 2 attention heads"},
      {"layer_types", {"full_attention"}, "layer_types: expected one entry per layer (2), found 1"},
      {"layer_types",
       {"full_attention", "mamba"},
       "layer_types[1]: expected sliding_attention or full_attention"},
      {"rope_parameters", {{"rope_theta", 1}}, "an object with one for full_attention"},
  };
  for (const auto& row : cases) {
    ConvertSample sample = Gemma();
    sample.config[row.key] = row.value;
    EXPECT_THAT(GemmaKeyError(sample).message, HasSubstr(row.message)) << row.key;
  }
  ConvertSample still = Gemma();
  still.config["rope_parameters"]["full_attention"]["rope_theta"] = 0;
  EXPECT_THAT(GemmaKeyError(still).message, HasSubstr("rope_theta: expected more than 1, found 0"));
  ConvertSample sample = Gemma();
  sample.config["rope_parameters"]["sliding_attention"]["partial_rotary_factor"] = 0.5;
  EXPECT_THAT(GemmaKeyError(sample).message, HasSubstr("partial_rotary_factor: expected 1"));
  sample = Gemma();
  sample.config["rope_parameters"]["full_attention"]["rope_type"] = "yarn";
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("rope_type: expected proportional"));
  sample.config["rope_parameters"]["full_attention"] = {
      {"rope_type", "proportional"}, {"rope_theta", 1}, {"partial_rotary_factor", 2}};
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("a number from 0 to 1"));
}

}  // namespace
}  // namespace moepack
