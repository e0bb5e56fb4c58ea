#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

ConvertSample Dots() {
  ConvertSample sample = LayeredSample("Dots1ForCausalLM", "dots1", "n_routed_experts");
  sample.config["n_shared_experts"] = 1;
  sample.config["scoring_func"] = "noaux_tc";
  sample.config["norm_topk_prob"] = true;
  sample.config["routed_scaling_factor"] = 2.5;
  sample.config["num_key_value_heads"] = 2;
  AddModel(sample);
  for (const std::string at : {"model.layers.0.", "model.layers.1."}) {
    AddLayerNorms(sample, at);
    for (const char* part : {"q", "k", "v", "o"})
      sample.Add(at + "self_attn." + part + "_proj.weight", {4, 4});
    sample.Add(at + "self_attn.q_norm.weight", {2});
    sample.Add(at + "self_attn.k_norm.weight", {2});
  }
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddDeepseekExperts(sample, "model.layers.1.", /*bias=*/true);
  return sample;
}

TEST(Dots1, WritesHowExpertsAreScoredAndWhichLayersAreDense) {
  const GgufMetadata keys = ConvertedKeys(Dots());
  EXPECT_EQ(keys.Uint("dots1.expert_gating_func"), 2u);
  EXPECT_EQ(*keys.Find("dots1.expert_weights_scale"), GgufValue::F32(2.5f));
  EXPECT_EQ(*keys.Find("dots1.expert_weights_norm"), GgufValue::Bool(true));
  EXPECT_EQ(keys.Uint("dots1.leading_dense_block_count"), 1u);
  EXPECT_EQ(keys.Uint("dots1.expert_shared_count"), 1u);
}

TEST(Dots1, RequiresASelectionBiasAndNorms) {
  for (const char* name :
       {"e_score_correction_bias", "q_norm", "k_norm", "shared_experts.up_proj"}) {
    ConvertSample sample = Dots();
    sample.Remove(name);
    const Error error = ConversionError(sample);
    EXPECT_EQ(error.code, Code::kCorrupt) << name;
  }
}

Result<GgufModel> DotsKeysOf(const ConvertSample& sample) {
  ConvertOptions options;
  options.part = ConvertOptions::Part::kKeys;
  return sample.Convert(options);
}

TEST(Dots1, RefusesFewerKeyHeadsThanHeads) {
  ConvertSample sample = Dots();
  sample.config["num_key_value_heads"] = 1;
  const auto keys = DotsKeysOf(sample);
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, Code::kUnsupported);
  EXPECT_THAT(keys.error().message, HasSubstr("num_key_value_heads: expected 2"));
}

TEST(Dots1, RefusesLayersWithAWindow) {
  ConvertSample sample = Dots();
  sample.config["layer_types"] = {"full_attention", "sliding_attention"};
  const Error error = ConversionError(sample);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("layer_types: expected full attention in every layer"));
  sample.config["layer_types"] = "full";
  const auto keys = DotsKeysOf(sample);
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().message,
              HasSubstr("layer_types: expected a list with one entry per layer (2)"));
}

}  // namespace
}  // namespace moepack
