#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/model.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

using Shape = std::vector<uint64_t>;

TensorRule Rule(Part part, const std::string& role = "") {
  TensorRule rule;
  rule.part = part;
  rule.role = role;
  return rule;
}

ModelTensor In(std::optional<uint32_t> layer, std::string_view leaf = "weight", bool mtp = false) {
  ModelTensor tensor;
  tensor.layer = layer;
  tensor.leaf = leaf;
  tensor.mtp = mtp;
  return tensor;
}

void AddExperts(ModelForTest& model, uint32_t layer, uint64_t experts, const Shape& gate) {
  for (uint64_t expert = 0; expert < experts; ++expert) {
    model.Tensor(Rule(Part::kExpert, "gate"), In(layer), "BF16", gate);
    model.Tensor(Rule(Part::kExpert, "up"), In(layer), "BF16", gate);
    model.Tensor(Rule(Part::kExpert, "down"), In(layer), "BF16", {gate[1], gate[0]});
  }
}

// The tensors of a decoder with grouped-query attention and no biases, as the Hugging Face
// checkpoints have them.
struct DecoderSizes {
  uint32_t layers, experts, top_k;
  uint64_t hidden, width, vocabulary, query, key_value, head;
  bool query_norms;
};

MoeModel Decoder(const DecoderSizes& s) {
  ModelForTest model;
  const TensorRule trunk = Rule(Part::kTrunk);
  model.Layers(s.layers, s.experts, s.top_k);
  model.Tensor(trunk, In({}), "BF16", {s.vocabulary, s.hidden});
  model.Tensor(trunk, In({}), "BF16", {s.vocabulary, s.hidden});
  model.Tensor(trunk, In({}), "BF16", {s.hidden});
  for (uint32_t layer = 0; layer < s.layers; ++layer) {
    for (const Shape& shape :
         {Shape{s.query, s.hidden}, Shape{s.key_value, s.hidden}, Shape{s.key_value, s.hidden},
          Shape{s.hidden, s.query}, Shape{s.hidden}, Shape{s.hidden}}) {
      model.Tensor(trunk, In(layer), "BF16", shape);
    }
    if (s.query_norms) {
      model.Tensor(trunk, In(layer), "BF16", {s.head});
      model.Tensor(trunk, In(layer), "BF16", {s.head});
    }
    model.Tensor(Rule(Part::kRouter), In(layer), "BF16", {s.experts, s.hidden});
    AddExperts(model, layer, s.experts, {s.width, s.hidden});
  }
  return model.Build();
}

TEST(CountParameters, GivesThePublishedCountsOfQwen3_30B_A3B) {
  const ParameterCount count =
      CountParameters(Decoder({48, 128, 8, 2048, 768, 151936, 4096, 512, 128, true}));
  EXPECT_EQ(count.total, 30'532'122'624u);
  EXPECT_EQ(count.active, 3'353'032'704u);
  EXPECT_EQ(FormatParameters(count.total), "31B");
  EXPECT_EQ(count.mtp, 0u);
  EXPECT_EQ(count.other_modalities, 0u);
}

TEST(CountParameters, GivesThePublishedCountsOfMixtral8x7B) {
  const ParameterCount count =
      CountParameters(Decoder({32, 8, 2, 4096, 14336, 32000, 4096, 1024, 128, false}));
  EXPECT_EQ(count.total, 46'702'792'704u);
  EXPECT_EQ(count.active, 12'879'925'248u);
}

// Two experts, one of them active, and one more tensor.
ParameterCount CountWith(const TensorRule& rule, const ModelTensor& tensor,
                         const std::string& dtype, const Shape& shape, ModelConfig config = {}) {
  return CountParameters(
      ModelForTest(std::move(config)).Layers(1, 2, 1).Tensor(rule, tensor, dtype, shape).Build());
}

TEST(CountParameters, CountsSharedExpertsAndBiasesAsActive) {
  const ParameterCount shared = CountWith(Rule(Part::kShared), In(0), "BF16", {4, 6});
  EXPECT_EQ(shared.total, 24u);
  EXPECT_EQ(shared.active, 24u);
  EXPECT_EQ(CountWith(Rule(Part::kTrunk), In(0, "bias"), "BF16", {6}).active, 6u);
}

TEST(CountParameters, CountsTopKOfTheExpertsOfEachLayer) {
  ModelForTest model;
  model.Layer({0, 4, 1, 0, false}).Layer({1, 8, 3, 0, false});
  model.Tensor(Rule(Part::kExpert), In(0, ""), "BF16", {4, 10});
  model.Tensor(Rule(Part::kExpert), In(1, ""), "BF16", {8, 10});
  const ParameterCount count = CountParameters(model.Build());
  EXPECT_EQ(count.total, 120u);
  EXPECT_EQ(count.active, 10u + 30u);
}

TEST(CountParameters, SkipsScalesZeroPointsShapesAndExpertTables) {
  const TensorRule expert = Rule(Part::kExpert);
  for (const char* leaf : {"weight_scale", "weight_scale_inv", "weight_zero_point", "scales",
                           "biases", "qzeros", "g_idx", "input_scale", "weight_scale_2"}) {
    EXPECT_EQ(CountWith(expert, In(0, leaf), "F32", {4, 4}).total, 0u) << leaf;
  }
  EXPECT_EQ(CountWith(expert, In(0, "weight_shape"), "I64", {2}).total, 0u);
  TensorRule table = Rule(Part::kRouter);
  table.holds_expert_ids = true;
  EXPECT_EQ(CountWith(table, In(0), "F32", {4, 4}).total, 0u);
  EXPECT_EQ(CountWith(Rule(Part::kTrunk), In({}, ""), "I64", {1, 512}).total, 0u);
}

TEST(CountParameters, UnpacksIntegersByTheWidthOfTheConfig) {
  ModelConfig config;
  config.quant_bits = 8;
  const TensorRule expert = Rule(Part::kExpert);
  EXPECT_EQ(CountWith(expert, In(0, "weight_packed"), "I32", {4, 16}).total, 512u);
  EXPECT_EQ(CountWith(expert, In(0, "qweight"), "I32", {4, 16}).total, 512u);
  EXPECT_EQ(CountWith(expert, In(0, "qweight"), "I32", {4, 16}, config).total, 256u);
  EXPECT_EQ(CountWith(expert, In(0, "weight"), "U32", {4, 16}).total, 512u);
  EXPECT_EQ(CountWith(expert, In(0, "weight"), "U32", {4, 16}, config).total, 256u);
  config.quant_bits = 3;  // 32 values in three words
  EXPECT_EQ(CountWith(expert, In(0, "weight"), "U32", {4, 6}, config).total, 256u);
}

TEST(CountParameters, CountsTwoWeightsPerByteOfFourBitFloats) {
  const TensorRule expert = Rule(Part::kExpert, "gate");
  EXPECT_EQ(CountWith(expert, In(0, "blocks"), "U8", {2, 8, 3, 16}).total, 2u * 8 * 3 * 32);
  EXPECT_EQ(CountWith(expert, In(0, "weight_packed"), "U8", {8, 16}).total, 256u);
  ModelConfig config;
  EXPECT_EQ(CountWith(expert, In(0), "U8", {8, 16}, config).total, 128u);
  config.quant_method = "modelopt";
  EXPECT_EQ(CountWith(expert, In(0), "U8", {8, 16}, config).total, 256u);
  config.quant_method = "compressed-tensors";
  EXPECT_EQ(CountWith(expert, In(0), "U8", {8, 16}, config).total, 256u);
  EXPECT_EQ(CountWith(expert, In(0), "F8_E4M3", {8, 16}, config).total, 128u);
}

TEST(CountParameters, DistinguishesPairsFromInt8ByTheWidthOfTheRows) {
  ModelConfig config;
  config.hidden_size = 32;
  config.expert_intermediate_size = 16;
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "gate"), In(0), "I8", {16, 16}, config).total, 512u);
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "down"), In(0), "I8", {32, 8}, config).total, 512u);
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "gate"), In(0), "I8", {16, 32}, config).total, 512u);
  EXPECT_EQ(CountWith(Rule(Part::kExpert, "down"), In(0), "I8", {32, 16}, config).total, 512u);
}

TEST(CountParameters, CountsPredictionBlocksAndTowersSeparately) {
  ModelForTest model;
  model.Layer({0, 2, 1, 0, false}).Layer({1, 2, 1, 0, true});
  model.Tensor(Rule(Part::kTrunk), In(0), "BF16", {7});
  model.Tensor(Rule(Part::kExpert), In(1, "weight", true), "BF16", {2, 50});
  model.Tensor(Rule(Part::kTrunk, "vision"), In({}), "BF16", {11});
  model.Tensor(Rule(Part::kTrunk, "audio"), In({}), "BF16", {13});
  const ParameterCount count = CountParameters(model.Build());
  EXPECT_EQ(count.total, 7u);
  EXPECT_EQ(count.active, 7u);
  EXPECT_EQ(count.mtp, 100u);
  EXPECT_EQ(count.other_modalities, 24u);
}

TEST(CountParameters, IsZeroWhereTopKOrShapesAreUnknown) {
  ModelForTest model;
  model.Layers(1, 2, 0).Tensor(Rule(Part::kExpert), In(0), "BF16", {2, 50});
  EXPECT_EQ(CountParameters(model.Build()).total, 100u);
  EXPECT_EQ(CountParameters(model.Build()).active, 0u);
  EXPECT_EQ(CountParameters(model.NamesOnly().Build()).total, 0u);
}

}  // namespace
}  // namespace moepack
