#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Experts as in a floating-point fine-tune: transposed, [expert, in, out].
ConvertSample GptOss() {
  ConvertSample sample;
  sample.config = Json::parse(R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
    "num_hidden_layers": 1, "hidden_size": 4, "head_dim": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "num_local_experts": 2, "num_experts_per_tok": 1,
    "intermediate_size": 3, "vocab_size": 5, "max_position_embeddings": 64,
    "tie_word_embeddings": false})");
  AddModel(sample);
  const std::string at = "model.layers.0.";
  sample.Add(at + "input_layernorm.weight", {4});
  sample.Add(at + "post_attention_layernorm.weight", {4});
  const std::tuple<const char*, uint64_t> rows[] = {{"q", 4}, {"k", 2}, {"v", 2}, {"o", 4}};
  for (const auto& [part, size] : rows) {
    sample.Add(at + "self_attn." + part + "_proj.weight", {size, 4});
    sample.Add(at + "self_attn." + part + "_proj.bias", {size});
  }
  sample.Add(at + "self_attn.sinks", {2});
  sample.Add(at + "mlp.router.weight", {2, 4});
  sample.Add(at + "mlp.router.bias", {2});
  sample.Add(at + "mlp.experts.gate_up_proj", {2, 4, 6});
  sample.Add(at + "mlp.experts.gate_up_proj_bias", {2, 6});
  sample.Add(at + "mlp.experts.down_proj", {2, 3, 4});
  sample.Add(at + "mlp.experts.down_proj_bias", {2, 4});
  return sample;
}

TEST(GptOss, SplitsAlternatingGateAndUpOfExpertsAndBiases) {
  ConvertSample sample = GptOss();
  const GgufModel model = Converted(sample);
  const std::vector<float> all = sample.Values("model.layers.0.mlp.experts.gate_up_proj");
  const std::vector<float> bias = sample.Values("model.layers.0.mlp.experts.gate_up_proj_bias");
  for (const auto& [name, odd] : {std::pair("gate", 0u), std::pair("up", 1u)}) {
    std::vector<float> expected, expected_bias;
    for (size_t expert = 0; expert < 2; ++expert) {
      for (size_t row = 0; row < 3; ++row) {
        for (size_t i = 0; i < 4; ++i)
          expected.push_back(all[(expert * 4 + i) * 6 + 2 * row + odd]);
        expected_bias.push_back(bias[expert * 6 + 2 * row + odd]);
      }
    }
    const std::string target = std::string("blk.0.ffn_") + name + "_exps";
    EXPECT_EQ(sample.Values(model, target + ".weight"), expected);
    EXPECT_EQ(sample.Values(model, target + ".bias"), expected_bias);
  }
}

TEST(GptOss, SinksGetAWeightSuffixAndStayF32) {
  const GgufModel model = Converted(GptOss());
  const auto sinks = std::find_if(model.tensors.begin(), model.tensors.end(), [](const auto& t) {
    return t.name == "blk.0.attn_sinks.weight";
  });
  ASSERT_NE(sinks, model.tensors.end());
  EXPECT_TRUE(sinks->fixed);
  EXPECT_THAT(sinks->shape, ElementsAre(2));
}

TEST(GptOss, FillsInTheYarnOfTheConfigClassAndNoRopeDimensions) {
  const GgufMetadata keys = Converted(GptOss()).metadata;
  EXPECT_EQ(*keys.Find("gpt-oss.rope.freq_base"), GgufValue::F32(150000));
  EXPECT_EQ(keys.String("gpt-oss.rope.scaling.type"), "yarn");
  EXPECT_EQ(*keys.Find("gpt-oss.rope.scaling.factor"), GgufValue::F32(32));
  EXPECT_EQ(keys.Uint("gpt-oss.rope.scaling.original_context_length"), 4096u);
  EXPECT_EQ(keys.Uint("gpt-oss.attention.sliding_window"), 128u);
  EXPECT_EQ(keys.Uint("gpt-oss.expert_feed_forward_length"), 3u);
  EXPECT_EQ(keys.Find("gpt-oss.rope.dimension_count"), nullptr);
}

TEST(GptOss, RequiresEveryBiasAndSink) {
  for (const char* name :
       {"self_attn.q_proj.bias", "self_attn.o_proj.bias", "mlp.router.bias", "self_attn.sinks",
        "mlp.experts.gate_up_proj_bias", "mlp.experts.down_proj_bias"}) {
    ConvertSample sample = GptOss();
    sample.Remove(name);
    const auto model = sample.Convert();
    ASSERT_FALSE(model) << name;
    EXPECT_THAT(model.error().message, HasSubstr(name));
  }
}

// A linear layer for each expert, [out, in], as tools make them that quantize such layers.
TEST(GptOss, StacksExpertsThatAreLinearLayers) {
  ConvertSample sample = GptOss();
  sample.Remove("mlp.experts");
  const std::string at = "model.layers.0.mlp.experts.";
  for (const char* expert : {"0", "1"}) {
    sample.Add(at + "gate_up_projs." + expert + ".weight", {6, 4});
    sample.Add(at + "gate_up_projs." + expert + ".bias", {6});
    sample.Add(at + "down_projs." + expert + ".weight", {4, 3});
    sample.Add(at + "down_projs." + expert + ".bias", {4});
  }
  const GgufModel model = Converted(sample);
  std::vector<float> down;
  for (const auto& [name, odd] : {std::pair("gate", 0u), std::pair("up", 1u)}) {
    std::vector<float> expected, expected_bias;
    for (const char* expert : {"0", "1"}) {
      const std::vector<float> all = sample.Values(at + "gate_up_projs." + expert + ".weight");
      const std::vector<float> bias = sample.Values(at + "gate_up_projs." + expert + ".bias");
      for (size_t row = 0; row < 3; ++row) {
        for (size_t i = 0; i < 4; ++i) expected.push_back(all[(2 * row + odd) * 4 + i]);
        expected_bias.push_back(bias[2 * row + odd]);
      }
    }
    const std::string target = std::string("blk.0.ffn_") + name + "_exps";
    EXPECT_EQ(sample.Values(model, target + ".weight"), expected);
    EXPECT_EQ(sample.Values(model, target + ".bias"), expected_bias);
  }
  for (const char* expert : {"0", "1"}) {
    for (const float value : sample.Values(at + "down_projs." + expert + ".weight"))
      down.push_back(value);
  }
  EXPECT_EQ(sample.Values(model, "blk.0.ffn_down_exps.weight"), down);
  sample.Remove("down_projs.1.bias");
  const auto incomplete = sample.Convert();
  ASSERT_FALSE(incomplete);
  EXPECT_THAT(incomplete.error().message,
              HasSubstr("expert 1: expected one tensor down.bias, found none"));
}

TEST(GptOss, NamesBitsandbytes) {
  ConvertSample sample = GptOss();
  sample.Remove("mlp.experts");
  const std::string at = "model.layers.0.mlp.experts.gate_up_projs.0.weight";
  sample.tensors.push_back({at, "U8", {12, 1}, std::string(12, 'x')});
  sample.tensors.push_back({at + ".absmax", "U8", {1}, "x"});
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message,
              HasSubstr("gate_up_projs.0.weight.absmax\": expected a tensor of family gpt-oss, "
                        "found a name that no rule matches (1 such tensor) (absmax is "
                        "bitsandbytes' name for the scales of a weight)"));
}

TEST(GptOss, ATiedHeadIsWrittenAsACopy) {
  ConvertSample sample = GptOss();
  sample.Remove("lm_head");
  sample.config["tie_word_embeddings"] = true;
  const GgufModel model = Converted(sample);
  EXPECT_EQ(sample.Values(model, "output.weight"), sample.Values("model.embed_tokens.weight"));
}

}  // namespace
}  // namespace moepack
