#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using golden::Rows;

TEST(ConvertMixtral, PermutesQueriesByHeadsAndKeysByKeyHeads) {
  ConvertSample sample = ConvertSample::Mixtral();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const std::string at = "model.layers.0.self_attn.";
  // Two query heads, one key head; with the query's two heads of two rows, keys would stay
  // unchanged.
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_q.weight"),
            Rows(sample.Values(at + "q_proj.weight"), 8, {0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_k.weight"),
            Rows(sample.Values(at + "k_proj.weight"), 8, {0, 2, 1, 3}));
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_v.weight"), sample.Values(at + "v_proj.weight"));
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_output.weight"), sample.Values(at + "o_proj.weight"));
}

TEST(ConvertMixtral, PermutesBiasesToo) {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.Add("model.layers.0.self_attn.k_proj.bias", {4});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(sample.Values(*model, "blk.0.attn_k.bias"),
            Rows(sample.Values("model.layers.0.self_attn.k_proj.bias"), 1, {0, 2, 1, 3}));
}

TEST(ConvertMixtral, KnowsThatW1IsTheGateW3UpAndW2Down) {
  ConvertSample sample = ConvertSample::Mixtral();
  const auto model = sample.Convert();
  const std::string expert = "model.layers.0.block_sparse_moe.experts.0.";
  const std::pair<const char*, const char*> pairs[] = {
      {"w1", "gate"}, {"w3", "up"}, {"w2", "down"}};
  for (const auto& [source, target] : pairs) {
    std::vector<float> first =
        sample.Values(*model, std::string("blk.0.ffn_") + target + "_exps.weight");
    first.resize(first.size() / 2);
    EXPECT_EQ(first, sample.Values(expert + source + ".weight")) << source;
  }
}

TEST(ConvertMixtral, FillsInTheBaseThatTheConfigClassHas) {
  ConvertSample sample = ConvertSample::Mixtral();
  EXPECT_EQ(*sample.Convert()->metadata.Find("llama.rope.freq_base"), GgufValue::F32(1e6f));
  sample.config["rope_theta"] = 10000;
  EXPECT_EQ(*sample.Convert()->metadata.Find("llama.rope.freq_base"), GgufValue::F32(1e4f));
}

TEST(ConvertMixtral, WritesRopeDimensionsEvenIfHeadDimIsNull) {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.config["head_dim"] = nullptr;
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*model->metadata.Find("llama.rope.dimension_count"), GgufValue::U32(4));
  EXPECT_EQ(*model->metadata.Find("llama.vocab_size"), GgufValue::U32(5));
  EXPECT_EQ(model->metadata.Find("llama.attention.key_length"), nullptr);
  EXPECT_EQ(model->metadata.Find("llama.attention.sliding_window"), nullptr);
}

TEST(ConvertMixtral, WritesTheFactorsOfLlama3ScalingAsATensor) {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.config["rope_scaling"] = {{"rope_type", "llama3"}};
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufTensor& factors = model->tensors.back();
  EXPECT_EQ(factors.name, "rope_freqs.weight");
  EXPECT_TRUE(factors.fixed);
  EXPECT_EQ(factors.bytes(), 8u);
  EXPECT_EQ(sample.Values(*model, factors.name).front(), 1.0f);
  EXPECT_EQ(model->metadata.Find("llama.rope.scaling.type"), nullptr);
}

TEST(ConvertMixtral, TakesTheLayoutOfNewerTransformers) {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.Remove("block_sparse_moe");
  sample.Add("model.layers.0.mlp.gate.weight", {2, 8});
  sample.Add("model.layers.0.mlp.experts.gate_up_proj", {2, 4, 8});
  sample.Add("model.layers.0.mlp.experts.down_proj", {2, 8, 2});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(sample.Values(*model, "blk.0.ffn_up_exps.weight"),
            Rows(sample.Values("model.layers.0.mlp.experts.gate_up_proj"), 8, {2, 3, 6, 7}));
}

TEST(ConvertMixtral, WritesTheSpacePrefixOfTheTokenizer) {
  ConvertSample sample = ConvertSample::Mixtral();
  EXPECT_EQ(sample.Convert()->metadata.Find("tokenizer.ggml.add_space_prefix"), nullptr);
  sample.tokenizer_config = {{"add_prefix_space", false}};
  EXPECT_EQ(*sample.Convert()->metadata.Find("tokenizer.ggml.add_space_prefix"),
            GgufValue::Bool(false));
}

}  // namespace
}  // namespace moepack
