#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

// Layer 0 has full attention and is dense, layer 1 has a window, experts, and two key heads.
ConvertSample Mimo() {
  ConvertSample sample =
      LayeredSample("MiMoV2FlashForCausalLM", "mimo_v2_flash", "n_routed_experts");
  sample.config.erase("first_k_dense_replace");
  sample.config.erase("rms_norm_eps");
  sample.config.update(Json::parse(R"({"head_dim": 2, "v_head_dim": 1, "swa_head_dim": 2,
      "swa_v_head_dim": 1, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2,
      "hybrid_layer_pattern": [0, 1], "moe_layer_freq": [0, 1], "sliding_window": 4,
      "swa_rope_theta": 100, "partial_rotary_factor": 1.0, "attention_value_scale": 0.5,
      "layernorm_epsilon": 1e-5, "scoring_func": "sigmoid", "norm_topk_prob": true})"));
  AddModel(sample);
  for (const std::string number : {"0", "1"}) {
    const std::string at = "model.layers." + number + ".";
    const uint64_t heads = number == "1" ? 2 : 1;
    AddLayerNorms(sample, at);
    sample.Add(at + "self_attn.q_proj.weight", {4, 4});
    sample.Add(at + "self_attn.k_proj.weight", {2 * heads, 4});
    sample.Add(at + "self_attn.v_proj.weight", {heads, 4});
    sample.Add(at + "self_attn.o_proj.weight", {4, 2});
  }
  sample.Add("model.layers.1.self_attn.attention_sink_bias", {2});
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddDeepseekExperts(sample, "model.layers.1.", /*bias=*/true);
  sample.Remove("shared_experts");
  return sample;
}

// The keys from config.json alone.
Result<GgufModel> MimoKeysOf(const ConvertSample& sample) {
  ConvertOptions options;
  options.part = ConvertOptions::Part::kKeys;
  return sample.Convert(options);
}

TEST(MimoV2, WritesHeadsAndWindowsLayerByLayer) {
  const GgufMetadata keys = ConvertedKeys(Mimo());
  EXPECT_THAT(keys.Find("mimo2.attention.head_count_kv")->AsUints(), Optional(ElementsAre(1, 2)));
  EXPECT_THAT(keys.Find("mimo2.attention.sliding_window_pattern")->AsUints(),
              Optional(ElementsAre(0, 1)));
  EXPECT_EQ(keys.Uint("mimo2.attention.value_length"), 1u);
  EXPECT_EQ(keys.Uint("mimo2.attention.sliding_window"), 4u);
  EXPECT_EQ(*keys.Find("mimo2.rope.freq_base_swa"), GgufValue::F32(100));
  EXPECT_EQ(*keys.Find("mimo2.attention.value_scale"), GgufValue::F32(0.5f));
  EXPECT_EQ(*keys.Find("mimo2.attention.layer_norm_rms_epsilon"), GgufValue::F32(1e-5f));
}

TEST(MimoV2, RefusesSizesThatDifferBetweenLayers) {
  for (const char* key : {"swa_head_dim", "swa_v_head_dim", "swa_num_attention_heads"}) {
    ConvertSample sample = Mimo();
    sample.config[key] = 8;
    const auto keys = MimoKeysOf(sample);
    ASSERT_FALSE(keys) << key;
    EXPECT_EQ(keys.error().code, Code::kUnsupported);
    EXPECT_THAT(keys.error().message, HasSubstr(key));
  }
}

TEST(MimoV2, RefusesListsOfTheWrongLength) {
  for (const char* key : {"hybrid_layer_pattern", "moe_layer_freq"}) {
    ConvertSample sample = Mimo();
    sample.config[key] = {0, 1, 1};
    EXPECT_THAT(ConversionError(sample).message, HasSubstr(key));
  }
  ConvertSample sample = Mimo();
  sample.config.erase("hybrid_layer_pattern");
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("hybrid_layer_pattern"));
  sample = Mimo();
  sample.config.erase("moe_layer_freq");
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("moe_layer_freq: expected which layers have experts, found nothing"));
}

TEST(MimoV2, RequiresASelectionBias) {
  ConvertSample sample = Mimo();
  sample.Remove("e_score_correction_bias");
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("exp_probs_b"));
}

}  // namespace
}  // namespace moepack
