#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// Heads of four values.
ConvertSample Hunyuan() {
  ConvertSample sample = LayeredSample("HunYuanMoEV1ForCausalLM", "hunyuan", "num_experts");
  sample.config["num_hidden_layers"] = 1;
  sample.config["hidden_size"] = 8;
  sample.config["moe_topk"] = {1};
  sample.config["moe_intermediate_size"] = {2};
  sample.config["num_shared_expert"] = {1};
  sample.config["use_qk_norm"] = true;
  sample.config.erase("num_experts_per_tok");
  sample.config.erase("first_k_dense_replace");
  AddTokenizer(sample);
  sample.config["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 1000.0}};
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) sample.Add(name, {5, 8});
  sample.Add("model.norm.weight", {8});
  const std::string at = "model.layers.0.";
  sample.Add(at + "input_layernorm.weight", {8});
  sample.Add(at + "post_attention_layernorm.weight", {8});
  sample.Add(at + "self_attn.q_proj.weight", {8, 8});
  for (const char* part : {"k", "v"}) sample.Add(at + "self_attn." + part + "_proj.weight", {4, 8});
  sample.Add(at + "self_attn.o_proj.weight", {8, 8});
  for (const char* part : {"query", "key"})
    sample.Add(at + "self_attn." + part + "_layernorm.weight", {4});
  sample.Add(at + "mlp.gate.wg.weight", {2, 8});
  for (const char* module : {"experts.0", "experts.1", "shared_mlp"}) {
    sample.Add(at + "mlp." + module + ".gate_proj.weight", {2, 8});
    sample.Add(at + "mlp." + module + ".up_proj.weight", {2, 8});
    sample.Add(at + "mlp." + module + ".down_proj.weight", {8, 2});
  }
  return sample;
}

// The keys from config.json alone, and the error if there are none.
std::string HunyuanKeyError(const ConvertSample& sample) {
  ConvertOptions options;
  options.part = ConvertOptions::Part::kKeys;
  const auto keys = sample.Convert(options);
  EXPECT_FALSE(keys);
  return keys ? "" : keys.error().message;
}

TEST(HunyuanMoe, ReadsListsOfEqualNumbers) {
  ConvertSample sample = Hunyuan();
  const GgufMetadata keys = ConvertedKeys(sample);
  EXPECT_EQ(keys.Uint("hunyuan-moe.expert_used_count"), 1u);
  EXPECT_EQ(keys.Uint("hunyuan-moe.expert_feed_forward_length"), 2u);
  EXPECT_EQ(keys.Uint("hunyuan-moe.expert_shared_feed_forward_length"), 2u);
  sample.config["num_hidden_layers"] = 2;
  sample.config["moe_intermediate_size"] = {2, 2};
  sample.config["num_shared_expert"] = {1, 1};
  sample.config["moe_topk"] = {1, 2};
  EXPECT_THAT(HunyuanKeyError(sample), HasSubstr("moe_topk: expected one number for all layers"));
}

TEST(HunyuanMoe, ScalesTheRopeBase) {
  ConvertSample sample = Hunyuan();
  const GgufMetadata keys = ConvertedKeys(sample);
  // 10000 * 1000 ^ (4 / 2)
  EXPECT_EQ(*keys.Find("hunyuan-moe.rope.freq_base"), GgufValue::F32(1e10f));
  EXPECT_EQ(keys.String("hunyuan-moe.rope.scaling.type"), "none");
  EXPECT_EQ(keys.Uint("hunyuan-moe.context_length"), 262144u);
  sample.config["rope_scaling"]["alpha"] = 50;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("expected alpha 1000"));
  sample.config.erase("rope_scaling");
  EXPECT_EQ(*ConvertedKeys(sample).Find("hunyuan-moe.rope.freq_base"), GgufValue::F32(1e4f));
}

TEST(HunyuanMoe, RefusesFeaturesThatTheRuntimeLacks) {
  const std::tuple<const char*, Json, const char*> wrong[] = {
      {"use_cla", true, "use_cla: expected false"},
      {"use_mla", true, "use_mla: expected false"},
      {"moe_intermediate_size", Json{3}, "moe_intermediate_size: expected intermediate_size (2)"},
      {"num_shared_expert", Json{2}, "num_shared_expert: expected 1, found 2"}};
  for (const auto& [key, value, message] : wrong) {
    ConvertSample sample = Hunyuan();
    sample.config[key] = value;
    EXPECT_THAT(HunyuanKeyError(sample), HasSubstr(message));
  }
}

TEST(HunyuanMoe, WritesTheSizeOfHeadsUnderEitherName) {
  for (const char* name : {"head_dim", "attention_head_dim"}) {
    ConvertSample sample = Hunyuan();
    sample.config[name] = 4;
    const GgufMetadata keys = ConvertedKeys(sample);
    EXPECT_EQ(keys.Uint("hunyuan-moe.attention.key_length"), 4u) << name;
    EXPECT_EQ(keys.Uint("hunyuan-moe.attention.value_length"), 4u) << name;
  }
}

TEST(HunyuanMoe, BeginsWithTheTokenOfItsText) {
  ConvertSample sample = Hunyuan();
  sample.config["bos_token_id"] = 1;
  EXPECT_EQ(ConvertedKeys(sample).Uint("tokenizer.ggml.bos_token_id"), 1u);
  sample.tokenizer["added_tokens"] =
      Json::parse(R"([{"id": 4, "content": "<|bos|>", "special": true}])");
  EXPECT_EQ(ConvertedKeys(sample).Uint("tokenizer.ggml.bos_token_id"), 4u);
}

}  // namespace
}  // namespace moepack
