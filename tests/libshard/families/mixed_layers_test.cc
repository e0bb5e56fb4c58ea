#include "libshard/families/mixed_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/layer_fields.h"
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

using testing::ElementsAre;

TEST(Windows, WordsAndNumbersNameTheBlocksWithAWindow) {
  HfShape shape;
  shape.layers = 2;
  for (const char* text : {R"({"layer_types": ["sliding_attention", "full_attention"]})",
                           R"({"hybrid_layer_pattern": [1, 0]})"}) {
    const auto windowed =
        ReadWindowed(*HfConfig::Parse("config.json", text), shape, fields::kLayerTypes);
    ASSERT_TRUE(windowed) << windowed.error().message;
    EXPECT_THAT(*windowed, ElementsAre(true, false)) << text;
    EXPECT_THAT(ByWindow(*windowed, 3, 4), ElementsAre(3, 4));
  }
}

TEST(Windows, TheWindowMustBeStated) {
  GgufMetadata metadata;
  ArchKeys keys("arch", metadata);
  EXPECT_TRUE(AddWindowKey(*HfConfig::Parse("c", R"({"sliding_window": 8})"), keys));
  EXPECT_EQ(metadata.Uint("arch.attention.sliding_window"), 8u);
  EXPECT_EQ(AddWindowKey(*HfConfig::Parse("c", "{}"), keys).error().code, Code::kCorrupt);
}

TEST(Windows, KeyHeadsMustDivideTheHeads) {
  const HfConfig config = *HfConfig::Parse("c", R"({"swa_num_key_value_heads": 3})");
  EXPECT_TRUE(CheckKeyHeads(config, fields::kWindowKeyHeads, 6, 3));
  for (const uint32_t key_heads : {0u, 4u}) {
    const Status status = CheckKeyHeads(config, fields::kWindowKeyHeads, 6, key_heads);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message,
              "c: swa_num_key_value_heads: expected a divisor of the 6 attention heads, found 3");
  }
}

HfShape ShapeOfBlocks(uint32_t layers, uint32_t mtp_layers) {
  HfShape shape;
  shape.layers = layers;
  shape.mtp_layers = mtp_layers;
  return shape;
}

Result<std::vector<LayerKind>> BlockKindsOf(const std::string& text, const HfShape& shape) {
  return ReadBlockKinds(*HfConfig::Parse("config.json", text), shape, fields::kLayerTypes,
                        {LayerKind::kLinear, LayerKind::kFull});
}

Error BlockKindsError(const std::string& text) {
  const auto kinds = BlockKindsOf(text, ShapeOfBlocks(2, 0));
  EXPECT_FALSE(kinds) << text;
  return kinds ? Error{} : kinds.error();
}

TEST(BlockKinds, BlocksForMultiTokenPredictionHaveFullAttentionUnlessAListNamesThem) {
  const char* two = R"({"layer_types": ["linear_attention", "full_attention"]})";
  EXPECT_THAT(*BlockKindsOf(two, ShapeOfBlocks(2, 1)),
              ElementsAre(LayerKind::kLinear, LayerKind::kFull, LayerKind::kFull));
  const char* three = R"({"num_nextn_predict_layers": 1,
      "layer_types": ["linear_attention", "full_attention", "linear_attention"]})";
  EXPECT_THAT(*BlockKindsOf(three, ShapeOfBlocks(2, 1)),
              ElementsAre(LayerKind::kLinear, LayerKind::kFull, LayerKind::kLinear));
  EXPECT_THAT(*BlockKindsOf(three, ShapeOfBlocks(2, 0)),
              ElementsAre(LayerKind::kLinear, LayerKind::kFull));
}

TEST(BlockKinds, AKindThatTheRuntimeLacksIsNamedByItsPlace) {
  const Error error = BlockKindsError(R"({"layer_types": ["full_attention", "mamba"]})");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "config.json: layer_types[1]: expected linear_attention or full_attention, the kinds "
            "of layers that the runtime has here, found \"mamba\"");
}

TEST(BlockKinds, AWordThatNamesNoKindIsCorrupt) {
  for (const std::string word : {"liner_attention", ""}) {
    const Error error =
        BlockKindsError(R"({"layer_types": ["full_attention", ")" + word + R"("]})");
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_EQ(error.message,
              "config.json: layer_types[1]: expected linear_attention or full_attention, found \"" +
                  word + "\"");
  }
}

TEST(BlockKinds, AConfigThatNamesNoneOrTooFewIsCorrupt) {
  const Error none = BlockKindsError("{}");
  EXPECT_EQ(none.code, Code::kCorrupt);
  EXPECT_EQ(none.message,
            "config.json: layer_types: expected the kind of each layer, found nothing");
  const Error few = BlockKindsError(R"({"layer_types": ["full_attention"]})");
  EXPECT_EQ(few.code, Code::kCorrupt);
  EXPECT_EQ(few.message, "config.json: layer_types: expected one entry per layer (2), found 1");
}

TEST(BlockKinds, NothingButFullAttentionPasses) {
  const auto check = [](const char* text) {
    return CheckFullAttention(*HfConfig::Parse("config.json", text), ShapeOfBlocks(2, 0));
  };
  EXPECT_TRUE(check("{}"));
  EXPECT_TRUE(check(R"({"layer_types": ["full_attention", "full_attention"]})"));
  const Status status = check(R"({"layer_types": ["full_attention", "sliding_attention"]})");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_EQ(status.error().message,
            "config.json: layer_types: expected full attention in every layer, which is what the "
            "runtime computes, found \"sliding_attention\"");
}

}  // namespace

}  // namespace moepack
