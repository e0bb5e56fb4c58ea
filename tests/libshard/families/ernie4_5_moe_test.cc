#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

constexpr const char* kErnieBias = "model.layers.1.mlp.moe_statics.e_score_correction_bias";

ConvertSample Ernie(bool shared = true) {
  ConvertSample sample =
      LayeredSample("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", "moe_num_experts");
  sample.config.erase("num_experts_per_tok");
  sample.config.erase("first_k_dense_replace");
  sample.config["moe_k"] = 1;
  sample.config["moe_num_shared_experts"] = 1;
  AddModel(sample);
  for (const std::string at : {"model.layers.0.", "model.layers.1."}) {
    AddLayerNorms(sample, at);
    AddGroupedAttention(sample, at);
  }
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddDeepseekExperts(sample, "model.layers.1.", /*bias=*/false);
  sample.Add(kErnieBias, {1, 2});
  if (!shared) sample.Remove("shared_experts");
  if (!shared) sample.config.erase("moe_num_shared_experts");
  return sample;
}

TEST(Ernie45Moe, TheSelectionBiasBecomesAVector) {
  ConvertSample sample = Ernie();
  const GgufModel model = Converted(sample);
  EXPECT_EQ(sample.Values(model, "blk.1.exp_probs_b.bias"), sample.Values(kErnieBias));
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.name != "blk.1.exp_probs_b.bias") continue;
    EXPECT_EQ(tensor.shape, std::vector<uint64_t>{2});
    EXPECT_EQ(tensor.expert_count, 2u);
  }
}

TEST(Ernie45Moe, ABiasOfSeveralRowsIsRefused) {
  ConvertSample sample = Ernie();
  sample.Reshape(kErnieBias, {2, 2});
  EXPECT_EQ(ConversionError(sample).code, Code::kCorrupt);
}

TEST(Ernie45Moe, WritesWhichLayersHaveExperts) {
  ConvertSample sample = Ernie();
  const GgufMetadata keys = ConvertedKeys(sample);
  EXPECT_EQ(keys.Uint("ernie4_5-moe.interleave_moe_layer_step"), 1u);
  EXPECT_EQ(keys.Uint("ernie4_5-moe.leading_dense_block_count"), 1u);
  EXPECT_EQ(keys.Uint("ernie4_5-moe.expert_shared_feed_forward_length"), 2u);
  sample.config["moe_layer_start_index"] = 0;
  EXPECT_EQ(ConversionError(sample).code, Code::kCorrupt);
  sample.config["moe_layer_interval"] = 2;  // layer 1 again
  EXPECT_EQ(ConvertedKeys(sample).Uint("ernie4_5-moe.interleave_moe_layer_step"), 2u);
  sample.config["moe_layer_interval"] = 0;
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("moe_layer_interval"));
}

TEST(Ernie45Moe, TheLastLayerWithExpertsMayBeNamed) {
  for (const int end : {-1, 1}) {
    ConvertSample sample = Ernie();
    sample.config["moe_layer_end_index"] = end;
    EXPECT_EQ(ConvertedKeys(sample).Uint("ernie4_5-moe.leading_dense_block_count"), 1u) << end;
  }
}

TEST(Ernie45Moe, DenseLayersAfterTheLastWithExpertsAreRefusedByTheConfig) {
  ConvertSample sample = Ernie();
  sample.config["num_hidden_layers"] = 3;
  sample.config["moe_layer_end_index"] = 1;
  AddLayerNorms(sample, "model.layers.2.");
  AddGroupedAttention(sample, "model.layers.2.");
  AddDenseMlp(sample, "model.layers.2.mlp.");
  const Error error = ConversionError(sample);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message,
              HasSubstr("moe_layer_end_index: expected experts in every layer from layer 1 on, as "
                        "the runtime has them, found none in layer 2"));
  ConvertOptions keys;
  keys.part = ConvertOptions::Part::kKeys;
  const auto alone = sample.Convert(keys);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().message, error.message);
}

TEST(Ernie45Moe, TheLargeModelHasNoSharedExperts) {
  const GgufMetadata keys = ConvertedKeys(Ernie(/*shared=*/false));
  EXPECT_EQ(keys.Find("ernie4_5-moe.expert_shared_count"), nullptr);
  EXPECT_EQ(keys.Find("ernie4_5-moe.expert_shared_feed_forward_length"), nullptr);
}

}  // namespace
}  // namespace moepack
