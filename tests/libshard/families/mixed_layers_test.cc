#include "libshard/families/mixed_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

Result<uint32_t> LeadingDenseOf(const std::string& config) {
  HfShape shape;
  shape.layers = 4;
  return LeadingDense(*HfConfig::Parse("config.json", config), shape);
}

uint32_t Dense(const std::string& config) {
  const auto count = LeadingDenseOf(config);
  EXPECT_TRUE(count) << count.error().message;
  return count ? *count : 99;
}

Error LeadingDenseError(const std::string& config) {
  const auto count = LeadingDenseOf(config);
  EXPECT_FALSE(count) << config;
  return count ? Error{} : count.error();
}

std::string MixedLayersError(const ConvertSample& sample) {
  const auto model = sample.Convert();
  EXPECT_FALSE(model);
  if (model) return "";
  EXPECT_EQ(model.error().code, Code::kCorrupt);
  return model.error().message;
}

ConvertSample MixedLayersSample() { return LatentSample("DeepseekV3ForCausalLM", "deepseek_v3"); }

TEST(MixedLayers, ReadsLeadingDenseLayersAsACountOrAList) {
  EXPECT_EQ(Dense(R"({"first_k_dense_replace": 3})"), 3u);
  EXPECT_EQ(Dense(R"({"first_k_dense_replace": 3,
                      "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]})"),
            1u);
  EXPECT_EQ(Dense(R"({"moe_layer_freq": [0, 0, 1, 1]})"), 2u);
  EXPECT_EQ(Dense(R"({"first_k_dense_replace": 4})"), 4u);
  EXPECT_EQ(Dense("{}"), 0u);
  EXPECT_THAT(LeadingDenseError(R"({"mlp_layer_types": "dense"})").message,
              HasSubstr("mlp_layer_types: expected a list"));
}

TEST(MixedLayers, DenseLayersAfterTheFirstWithExpertsAreRefused) {
  const Error error = LeadingDenseError(R"({"first_k_dense_replace": 1, "moe_layer_freq": 2})");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "config.json: first_k_dense_replace: expected experts in every layer from layer 2 on, "
            "as the runtime has them, found none in layer 3");
  EXPECT_EQ(
      LeadingDenseError(R"({"mlp_layer_types": ["dense", "sparse", "dense", "sparse"]})").code,
      Code::kUnsupported);
}

TEST(MixedLayers, AConfigThatContradictsItselfIsRefused) {
  const Error error = LeadingDenseError(R"({"first_k_dense_replace": 5})");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, "config.json: first_k_dense_replace: expected at most 4, found 5");
}

TEST(MixedLayers, EveryLayerMustHaveExactlyTheTensorsOfItsKind) {
  ConvertSample sample = MixedLayersSample();
  sample.config["first_k_dense_replace"] = 0;
  EXPECT_THAT(MixedLayersError(sample), HasSubstr("missing: layer 0: routed experts: expected some "
                                                  "(first_k_dense_replace), found none"));
  sample.config["first_k_dense_replace"] = 2;
  EXPECT_THAT(MixedLayersError(sample),
              HasSubstr("extra: layer 1: routed experts: expected none, a dense "
                        "layer (first_k_dense_replace), found some"));
  sample.config["first_k_dense_replace"] = 1;
  AddDenseMlp(sample, "model.layers.1.mlp.");
  EXPECT_THAT(MixedLayersError(sample), HasSubstr("expected no tensors for blk.1.ffn_gate.weight"));
}

TEST(MixedLayers, NamesAMissingPartOfALayer) {
  for (const auto& [source, target] :
       {std::pair("model.layers.0.mlp.up_proj", "blk.0.ffn_up.weight"),
        std::pair("model.layers.1.mlp.shared_experts.down_proj", "blk.1.ffn_down_shexp.weight")}) {
    ConvertSample sample = MixedLayersSample();
    sample.Remove(source);
    EXPECT_THAT(MixedLayersError(sample), HasSubstr(Cat("expected tensors for ", target)));
  }
}

TEST(MixedLayers, ExpertsMayBeFused) {
  ConvertSample sample = MixedLayersSample();
  sample.Remove("mlp.experts.");
  sample.Add("model.layers.1.mlp.experts.gate_up_proj", {2, 4, 4});
  sample.Add("model.layers.1.mlp.experts.down_proj", {2, 4, 2});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(
      sample.Values(*model, "blk.1.ffn_up_exps.weight"),
      golden::Rows(sample.Values("model.layers.1.mlp.experts.gate_up_proj"), 4, {2, 3, 6, 7}));
}

}  // namespace
}  // namespace moepack
