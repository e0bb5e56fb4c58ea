#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

void AddLlama4Attention(ConvertSample& sample, const std::string& at) {
  sample.Add(at + "input_layernorm.weight", {4});
  sample.Add(at + "post_attention_layernorm.weight", {4});
  const std::pair<const char*, uint64_t> rows[] = {{"q", 4}, {"k", 2}, {"v", 2}, {"o", 4}};
  for (const auto& [part, size] : rows) {
    sample.Add(at + "self_attn." + part + "_proj.weight", {size, 4});
  }
}

// A dense layer and one with two packed experts.
ConvertSample Llama4() {
  ConvertSample sample;
  sample.config = Json::parse(R"({"architectures": ["Llama4ForCausalLM"],
    "model_type": "llama4_text", "num_hidden_layers": 2, "hidden_size": 4, "head_dim": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 2,
    "num_experts_per_tok": 1, "intermediate_size": 3, "intermediate_size_mlp": 2,
    "interleave_moe_layer_step": 2, "vocab_size": 5, "max_position_embeddings": 64,
    "tie_word_embeddings": false})");
  AddModel(sample);
  AddLlama4Attention(sample, "model.layers.0.");
  AddDenseMlp(sample, "model.layers.0.feed_forward.");
  const std::string at = "model.layers.1.";
  AddLlama4Attention(sample, at);
  sample.Add(at + "feed_forward.router.weight", {2, 4});
  sample.Add(at + "feed_forward.experts.gate_up_proj", {2, 4, 6});
  sample.Add(at + "feed_forward.experts.down_proj", {2, 3, 4});
  sample.Add(at + "feed_forward.shared_expert.gate_proj.weight", {3, 4});
  sample.Add(at + "feed_forward.shared_expert.up_proj.weight", {3, 4});
  sample.Add(at + "feed_forward.shared_expert.down_proj.weight", {4, 3});
  return sample;
}

TEST(Llama4, SplitsGateAndUpFromHalvesOfTheColumnsAndTransposesThem) {
  ConvertSample sample = Llama4();
  const GgufModel model = Converted(sample);
  const std::vector<float> all = sample.Values("model.layers.1.feed_forward.experts.gate_up_proj");
  for (const auto& [name, first] : {std::pair("gate", 0u), std::pair("up", 3u)}) {
    std::vector<float> expected;
    for (size_t expert = 0; expert < 2; ++expert) {
      for (size_t row = 0; row < 3; ++row) {
        for (size_t i = 0; i < 4; ++i) expected.push_back(all[(expert * 4 + i) * 6 + first + row]);
      }
    }
    EXPECT_EQ(sample.Values(model, std::string("blk.1.ffn_") + name + "_exps.weight"), expected);
  }
}

TEST(Llama4, QueriesAndKeysKeepTheirOrder) {
  ConvertSample sample = Llama4();
  const GgufModel model = Converted(sample);
  EXPECT_EQ(sample.Values(model, "blk.0.attn_q.weight"),
            sample.Values("model.layers.0.self_attn.q_proj.weight"));
}

TEST(Llama4, SwapsTheFieldsOfTheDenseAndExpertWidths) {
  const GgufMetadata keys = Converted(Llama4()).metadata;
  EXPECT_EQ(keys.Uint("llama4.feed_forward_length"), 2u);
  EXPECT_EQ(keys.Uint("llama4.expert_feed_forward_length"), 3u);
  EXPECT_EQ(*keys.Find("llama4.rope.freq_base"), GgufValue::F32(5e5f));
}

TEST(Llama4, ASlidingWindowIsNeverWritten) {
  ConvertSample sample = Llama4();
  sample.config["layer_types"] = {"chunked_attention", "full_attention"};
  sample.config["attention_chunk_size"] = 8192;
  EXPECT_EQ(Converted(sample).metadata.Find("llama4.attention.sliding_window"), nullptr);
  sample.config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(ConversionError(sample).code, Code::kUnsupported);
}

TEST(Llama4, RefusesAQueryNormSettingThatTheRuntimeWouldGetWrong) {
  ConvertSample sample = Llama4();
  sample.config["use_qk_norm"] = false;
  const Error error = ConversionError(sample);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("use_qk_norm: expected true, as the runtime has it for 2 "));
}

TEST(Llama4, RequiresExpertsInTheLayersGivenByTheStep) {
  ConvertSample sample = Llama4();
  sample.config["interleave_moe_layer_step"] = 1;
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("missing: layer 0: routed experts: expected some "
                        "(interleave_moe_layer_step), found none"));
  sample.config["interleave_moe_layer_step"] = 2;
  sample.config["moe_layers"] = {1};
  EXPECT_EQ(ConvertedKeys(sample).Uint("llama4.interleave_moe_layer_step"), 2u);
  sample.config["interleave_moe_layer_step"] = 1;
  const Error listed = ConversionError(sample);
  EXPECT_EQ(listed.code, Code::kUnsupported);
  EXPECT_THAT(listed.message, HasSubstr("moe_layers: expected experts in every layer from layer 0 "
                                        "on, as the runtime has them, found none in layer 0"));
  sample.config["interleave_moe_layer_step"] = 0;
  EXPECT_EQ(ConversionError(sample).code, Code::kCorrupt);
  sample.config.erase("moe_layers");
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("interleave_moe_layer_step: expected at least 1"));
}

TEST(Llama4, DoesNotTransposeSeparateExperts) {
  ConvertSample sample = Llama4();
  sample.Remove("feed_forward.experts.");
  for (const char* expert : {"0", "1"}) {
    const std::string at = std::string("model.layers.1.feed_forward.experts.") + expert;
    sample.Add(at + ".gate_proj.weight", {3, 4});
    sample.Add(at + ".up_proj.weight", {3, 4});
    sample.Add(at + ".down_proj.weight", {4, 3});
  }
  const GgufModel model = Converted(sample);
  std::vector<float> first = sample.Values(model, "blk.1.ffn_down_exps.weight");
  first.resize(12);
  EXPECT_EQ(first, sample.Values("model.layers.1.feed_forward.experts.0.down_proj.weight"));
}

}  // namespace
}  // namespace moepack
