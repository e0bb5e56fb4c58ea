#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::Contains;
using testing::HasSubstr;

void AddExaoneAttention(ConvertSample& sample, const std::string& at) {
  AddLayerNorms(sample, at);
  AddGroupedAttention(sample, at);
  for (const char* part : {"q", "k"}) sample.Add(at + "self_attn." + part + "_norm.weight", {2});
}

ConvertSample Exaone() {
  ConvertSample sample = LayeredSample("ExaoneMoEForCausalLM", "exaone_moe", "num_experts");
  sample.config["num_shared_experts"] = 1;
  sample.config["num_nextn_predict_layers"] = 1;
  sample.config["layer_types"] = {"sliding_attention", "full_attention"};
  sample.config["sliding_window"] = 3;
  AddModel(sample);
  AddExaoneAttention(sample, "model.layers.0.");
  AddDenseMlp(sample, "model.layers.0.mlp.");
  AddExaoneAttention(sample, "model.layers.1.");
  AddDeepseekExperts(sample, "model.layers.1.", /*bias=*/false);
  sample.Add("model.layers.1.mlp.e_score_correction_bias", {2});
  AddExaoneAttention(sample, "mtp.layers.0.");
  AddDenseMlp(sample, "mtp.layers.0.mlp.");
  sample.Add("mtp.fc.weight", {4, 8});
  for (const char* norm : {"norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"})
    sample.Add(std::string("mtp.") + norm + ".weight", {4});
  return sample;
}

TEST(ExaoneMoe, WritesWhichLayersHaveAWindowWithoutTheBlockForPrediction) {
  const GgufMetadata keys = ConvertedKeys(Exaone());
  EXPECT_EQ(*keys.Find("exaone-moe.attention.sliding_window_pattern"),
            GgufValue::Bools({true, false}));
  EXPECT_EQ(keys.Uint("exaone-moe.attention.sliding_window"), 3u);
  EXPECT_EQ(keys.Uint("exaone-moe.block_count"), 3u);
  EXPECT_EQ(keys.Uint("exaone-moe.nextn_predict_layers"), 1u);
  EXPECT_EQ(*keys.Find("exaone-moe.rope.scaling.type"), GgufValue::String("none"));
}

TEST(ExaoneMoe, WithoutTheBlockItsCountIsZero) {
  ConvertOptions options;
  options.mtp = false;
  const GgufMetadata keys = Converted(Exaone(), options).metadata;
  EXPECT_EQ(keys.Uint("exaone-moe.block_count"), 2u);
  EXPECT_EQ(keys.Uint("exaone-moe.nextn_predict_layers"), 0u);
}

TEST(ExaoneMoe, TheBlockForPredictionIsDense) {
  std::vector<std::string> names;
  for (const GgufTensor& tensor : Converted(Exaone()).tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, Contains("blk.2.ffn_down.weight"));
  EXPECT_THAT(names, Contains("blk.2.nextn.hnorm.weight"));
  ConvertSample sample = Exaone();
  sample.Remove("mtp.layers.0.mlp.up_proj.weight");
  const Error error = ConversionError(sample);
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("layer 2 is to have a dense feed-forward part: expected "
                                       "tensors for blk.2.ffn_up.weight, found none"));
}

TEST(ExaoneMoe, AListOfFlagsSaysWhichLayersHaveExperts) {
  ConvertSample sample = Exaone();
  sample.config.erase("first_k_dense_replace");
  sample.config["is_moe_layer"] = {false, true};
  EXPECT_EQ(ConvertedKeys(sample).Uint("exaone-moe.leading_dense_block_count"), 1u);
}

TEST(ExaoneMoe, RefusesAScalingThatTheRuntimeIgnores) {
  ConvertSample sample = Exaone();
  sample.config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 32}};
  const Error error = ConversionError(sample);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("rope_type: expected default or llama3"));
}

}  // namespace
}  // namespace moepack
