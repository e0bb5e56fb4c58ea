#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

ConvertSample Trinity() {
  ConvertSample sample = LayeredSample("AfmoeForCausalLM", "afmoe", "num_experts");
  sample.config.erase("first_k_dense_replace");
  sample.config["num_dense_layers"] = 1;
  sample.config["num_shared_experts"] = 1;
  sample.config["layer_types"] = {"sliding_attention", "sliding_attention"};
  sample.config["sliding_window"] = 3;
  sample.config["mup_enabled"] = true;
  sample.config["route_norm"] = false;
  sample.config["route_scale"] = 2.5;
  sample.config["score_func"] = "sigmoid";
  AddModel(sample);
  for (const std::string at : {"model.layers.0.", "model.layers.1."}) {
    AddLayerNorms(sample, at);
    for (const char* norm : {"pre", "post"}) sample.Add(at + norm + "_mlp_layernorm.weight", {4});
    AddGroupedAttention(sample, at);
    sample.Add(at + "self_attn.gate_proj.weight", {4, 4});
    for (const char* part : {"q", "k"}) sample.Add(at + "self_attn." + part + "_norm.weight", {2});
  }
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddDeepseekExperts(sample, "model.layers.1.", /*bias=*/false);
  sample.Remove("mlp.gate.weight");
  sample.Add("model.layers.1.mlp.router.gate.weight", {2, 4});
  sample.Add("model.layers.1.mlp.expert_bias", {2});
  return sample;
}

TEST(Afmoe, WritesHowExpertsAreWeighed) {
  const GgufMetadata keys = ConvertedKeys(Trinity());
  EXPECT_EQ(keys.Uint("afmoe.expert_gating_func"), 2u);
  EXPECT_EQ(*keys.Find("afmoe.expert_weights_norm"), GgufValue::Bool(false));
  EXPECT_EQ(*keys.Find("afmoe.expert_weights_scale"), GgufValue::F32(2.5f));
  EXPECT_EQ(keys.Uint("afmoe.attention.sliding_window"), 3u);
  EXPECT_EQ(keys.Uint("afmoe.leading_dense_block_count"), 1u);
}

TEST(Afmoe, RefusesWhatTheRuntimeDoesOtherwise) {
  const auto refused = [](const char* field, const Json& value) {
    ConvertSample sample = Trinity();
    sample.config[field] = value;
    const Error error = ConversionError(sample);
    EXPECT_EQ(error.code, Code::kUnsupported) << field;
    return error.message;
  };
  EXPECT_THAT(refused("mup_enabled", false), HasSubstr("mup_enabled: expected true"));
  EXPECT_THAT(refused("global_attn_every_n_layers", 6),
              HasSubstr("global_attn_every_n_layers: expected 4"));
  EXPECT_THAT(refused("layer_types", {"sliding_attention", "full_attention"}),
              HasSubstr("layer_types[1]: expected sliding_attention, as the runtime has it, found "
                        "\"full_attention\""));
}

TEST(Afmoe, RequiresAGateForAttention) {
  ConvertSample sample = Trinity();
  sample.Remove("layers.1.self_attn.gate_proj");
  EXPECT_EQ(ConversionError(sample).code, Code::kCorrupt);
}

TEST(Afmoe, MayHaveNoSharedExperts) {
  ConvertSample sample = Trinity();
  sample.config["num_shared_experts"] = 0;
  sample.Remove("shared_experts");
  EXPECT_EQ(ConvertedKeys(sample).Uint("afmoe.expert_shared_count"), 0u);
}

}  // namespace
}  // namespace moepack
