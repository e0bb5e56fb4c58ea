#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/families/layout_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

std::string TypeOfTensor(const GgufModel& model, const char* name) {
  const GgufTensor* tensor = FindTensor(model, name);
  return tensor == nullptr ? "none" : std::string(tensor->type->name);
}

TEST(DeepseekV4, MatricesKeepTheirTypesAndFp8BecomesQ80) {
  LayoutSample deepseek("deepseek-v4");
  const GgufModel model = deepseek.Converted();
  EXPECT_EQ(TypeOfTensor(model, "blk.0.attn_q_a.weight"), "q8_0");
  EXPECT_EQ(TypeOfTensor(model, "blk.0.ffn_gate_inp.weight"), "bf16");
  EXPECT_EQ(TypeOfTensor(model, "blk.1.indexer.proj.weight"), "bf16");
  EXPECT_EQ(TypeOfTensor(model, "blk.0.hc_attn_fn.weight"), "f32");
  EXPECT_EQ(TypeOfTensor(model, "blk.0.attn_norm.weight"), "f32");
  EXPECT_EQ(TypeOfTensor(model, "blk.0.ffn_gate_exps.weight"), "mxfp4");
  EXPECT_EQ(TypeOfTensor(model, "blk.0.ffn_gate_tid2eid.weight"), "i32");
}

TEST(DeepseekV4, LayersHaveWhatTheirRatioSays) {
  LayoutSample deepseek("deepseek-v4");
  const GgufModel model = deepseek.Converted();
  EXPECT_EQ(FindTensor(model, "blk.0.attn_compressor_ape.weight"), nullptr);
  EXPECT_NE(FindTensor(model, "blk.1.indexer.attn_q_b.weight"), nullptr);
  EXPECT_NE(FindTensor(model, "blk.2.attn_compressor_ape.weight"), nullptr);
  EXPECT_EQ(FindTensor(model, "blk.2.indexer.attn_q_b.weight"), nullptr);
  EXPECT_EQ(FindTensor(model, "blk.0.exp_probs_b.bias"), nullptr);
  deepseek.config["compress_ratios"] = {0, 128, 128};
  EXPECT_THAT(deepseek.Refusal(),
              HasSubstr("\"layers.2.attn.indexer.compressor.ape\": expected one as layer 1 has"));
  deepseek.config["compress_ratios"] = {0, 4};
  EXPECT_THAT(deepseek.Refusal(), HasSubstr("compress_ratios: expected"));
}

TEST(DeepseekV4, RefusesMoreHashLayersThanLayers) {
  LayoutSample deepseek("deepseek-v4");
  deepseek.config["num_hash_layers"] = 4;
  EXPECT_THAT(deepseek.Refusal(), HasSubstr("num_hash_layers: expected at most 3, found 4"));
}

}  // namespace
}  // namespace moepack
