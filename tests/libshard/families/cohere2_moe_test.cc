#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// Layer 0 is dense, layer 1 has two experts and two shared ones in one part. One norm each.
ConvertSample Cohere() {
  ConvertSample sample = LayeredSample("Cohere2MoeForCausalLM", "cohere2_moe", "num_experts");
  sample.config.erase("moe_intermediate_size");
  sample.config["prefix_dense_intermediate_size"] = 3;
  sample.config["num_shared_experts"] = 2;
  sample.config["head_dim"] = 2;
  sample.config["layer_types"] = {"full_attention", "sliding_attention"};
  sample.config["sliding_window"] = 8;
  sample.config["expert_selection_fn"] = "sigmoid";
  AddTokenizer(sample);
  sample.Add("model.embed_tokens.weight", {5, 4});
  sample.Add("model.norm.weight", {4});
  sample.Add("lm_head.weight", {5, 4});
  for (const std::string at : {"model.layers.0.", "model.layers.1."}) {
    sample.Add(at + "input_layernorm.weight", {4});
    AddGroupedAttention(sample, at);
  }
  const std::string dense = "model.layers.0.mlp.", moe = "model.layers.1.mlp.";
  for (const char* part : {"gate", "up"}) sample.Add(dense + part + "_proj.weight", {3, 4});
  sample.Add(dense + "down_proj.weight", {4, 3});
  sample.Add(moe + "gate.weight", {2, 4});
  for (const std::string module : {"experts.0.", "experts.1.", "shared_experts."}) {
    const uint64_t width = module == "shared_experts." ? 4 : 2;
    for (const char* part : {"gate", "up"})
      sample.Add(moe + module + part + "_proj.weight", {width, 4});
    sample.Add(moe + module + "down_proj.weight", {4, width});
  }
  return sample;
}

TEST(Cohere2Moe, WritesWidthsWindowsAndTheScaleOfLogits) {
  const GgufMetadata keys = ConvertedKeys(Cohere());
  EXPECT_EQ(keys.Uint("cohere2moe.feed_forward_length"), 3u);
  EXPECT_EQ(keys.Uint("cohere2moe.expert_feed_forward_length"), 2u);
  EXPECT_EQ(keys.Uint("cohere2moe.expert_shared_feed_forward_length"), 4u);
  EXPECT_EQ(*keys.Find("cohere2moe.attention.sliding_window_pattern"),
            GgufValue::Bools({false, true}));
  EXPECT_EQ(*keys.Find("cohere2moe.logit_scale"), GgufValue::F32(0.25f)) << "of the config class";
  EXPECT_EQ(*keys.Find("cohere2moe.expert_weights_norm"), GgufValue::Bool(false));
  EXPECT_EQ(keys.Find("cohere2moe.expert_weights_scale"), nullptr) << "1 is left out";
}

TEST(Cohere2Moe, WritesTheEpsilonOfTheNormsThatTheModelHas) {
  ConvertSample sample = Cohere();
  const auto has = [&](const char* key) {
    return ConvertedKeys(sample).Find(std::string("cohere2moe.attention.") + key) != nullptr;
  };
  EXPECT_TRUE(has("layer_norm_rms_epsilon"));
  EXPECT_FALSE(has("layer_norm_epsilon"));
  sample.config["layer_norm_eps"] = 1e-5;
  EXPECT_TRUE(has("layer_norm_rms_epsilon"));
  EXPECT_TRUE(has("layer_norm_epsilon"));
  sample.config.erase("rms_norm_eps");
  EXPECT_FALSE(has("layer_norm_rms_epsilon"));
  EXPECT_TRUE(has("layer_norm_epsilon"));
  sample.config.erase("layer_norm_eps");
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("rms_norm_eps"));
}

// The graph has no biases.
TEST(Cohere2Moe, LeavesOutBiasesOfZeroAndRefusesOthers) {
  ConvertSample sample = Cohere();
  sample.config["attention_bias"] = true;
  const size_t before = Converted(sample).tensors.size();
  const std::string query = "model.layers.0.self_attn.q_proj.bias";
  sample.tensors.push_back({query, "BF16", {4}, std::string("\0\0\0\x80\0\0\0\0", 8)});
  for (const char* expert : {"0", "1"}) {
    sample.tensors.push_back({std::string("model.layers.1.mlp.experts.") + expert + ".up_proj.bias",
                              "F32",
                              {2},
                              std::string(8, '\0')});
  }
  EXPECT_EQ(Converted(sample).tensors.size(), before);
  for (auto& tensor : sample.tensors) {
    if (tensor.name == query) tensor.bytes[6] = 1;
  }
  const Error error = ConversionError(sample);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("tensor \"" + query + "\": expected zeros"));
}

TEST(Cohere2Moe, IsRefusedWhereTheGraphHasSomethingElseBuiltIn) {
  const std::pair<const char*, Json> changes[] = {{"shared_expert_combination_strategy", "sum"},
                                                  {"use_parallel_block", false},
                                                  {"use_gated_activation", false},
                                                  {"use_qk_norm", true}};
  for (const auto& [field, value] : changes) {
    ConvertSample sample = Cohere();
    sample.config[field] = value;
    EXPECT_THAT(ConversionError(sample).message, HasSubstr(field));
  }
}

}  // namespace
}  // namespace moepack
