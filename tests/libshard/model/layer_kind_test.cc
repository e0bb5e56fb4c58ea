#include "libshard/model/layer_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LayerKinds ReadKindsOf(const std::string& text, size_t layers = 4, size_t mtp = 0) {
  ConfigFaults faults;
  const auto kinds = ReadLayerKinds(*HfConfig::Parse("config.json", text), {layers, mtp}, faults);
  EXPECT_TRUE(kinds) << kinds.error().message;
  EXPECT_THAT(faults, IsEmpty()) << text;
  return kinds ? *kinds : LayerKinds();
}

std::vector<LayerKind> KindsOf(const std::string& text, size_t layers = 4, size_t mtp = 0) {
  std::vector<LayerKind> kinds;
  for (const NamedKind& layer : ReadKindsOf(text, layers, mtp).layers) kinds.push_back(layer.kind);
  return kinds;
}

constexpr LayerKind kFull = LayerKind::kFull, kWindow = LayerKind::kWindow,
                    kLinear = LayerKind::kLinear, kMamba = LayerKind::kMamba,
                    kExperts = LayerKind::kExperts, kOther = LayerKind::kOther;

TEST(LayerKind, IsNamedByWordsLettersOrNumbers) {
  EXPECT_THAT(KindsOf(R"({"layer_types": ["full_attention", "sliding_attention",
                          "linear_attention", "conv"]})"),
              ElementsAre(kFull, kWindow, kLinear, LayerKind::kConvolution));
  EXPECT_THAT(KindsOf(R"({"layer_types": ["attention", "mamba", "chunked_attention", "else"]})"),
              ElementsAre(kFull, kMamba, LayerKind::kChunked, kOther));
  EXPECT_THAT(KindsOf(R"({"hybrid_override_pattern": "ME*-"})"),
              ElementsAre(kMamba, kExperts, kFull, LayerKind::kDense));
  EXPECT_THAT(KindsOf(R"({"layers_block_type": ["mamba", "moe", "attention", "mlp"]})"),
              ElementsAre(kMamba, kExperts, kFull, LayerKind::kDense));
}

TEST(LayerKind, TheSameEntryMeansAnotherKindInAnotherList) {
  EXPECT_THAT(KindsOf(R"({"hybrid_layer_pattern": [0, 1, 1, 2]})"),
              ElementsAre(kFull, kWindow, kWindow, kOther));
  EXPECT_THAT(KindsOf(R"({"attn_type_list": [0, 1, 1, 0]})"),
              ElementsAre(kOther, kFull, kFull, kOther));
  EXPECT_THAT(KindsOf(R"({"layers_block_type": ["linear_attention"]})", 1), ElementsAre(kMamba));
}

TEST(LayerKind, ListsThatDisagreeNameNoKind) {
  const LayerKinds kinds = ReadKindsOf(
      R"({"layer_types": ["full_attention", "full_attention"], "hybrid_layer_pattern": [0, 1]})",
      2);
  EXPECT_EQ(kinds.field, "layer_types");
  EXPECT_EQ(kinds.layers[0].kind, kFull);
  EXPECT_EQ(kinds.layers[1].kind, kOther);
  EXPECT_EQ(kinds.layers[1].words, "full_attention 1");
}

TEST(LayerKind, AListOfBlocksDecidesAlone) {
  const LayerKinds kinds = ReadKindsOf(
      R"({"layer_types": ["linear_attention", "moe"], "hybrid_override_pattern": "ME"})", 2);
  EXPECT_EQ(kinds.field, "hybrid_override_pattern");
  EXPECT_EQ(kinds.layers[0].kind, kMamba);
  EXPECT_EQ(kinds.layers[0].words, "M");
  EXPECT_EQ(kinds.layers[1].kind, kExperts);
}

TEST(LayerKind, AnEmptyWordCountsBesideAnotherList) {
  const LayerKinds kinds = ReadKindsOf(R"({"layer_types": [""], "hybrid_layer_pattern": [0]})", 1);
  EXPECT_EQ(kinds.layers[0].kind, kOther);
}

TEST(LayerKind, FollowsTheIntervalWhereNoListNamesIt) {
  const LayerKinds kinds = ReadKindsOf(R"({"text_config": {"full_attention_interval": 2}})");
  EXPECT_EQ(kinds.field, "text_config.full_attention_interval");
  EXPECT_EQ(kinds.layers[0].words, "linear_attention");
  EXPECT_THAT(KindsOf(R"({"full_attention_interval": 2})"),
              ElementsAre(kLinear, kFull, kLinear, kFull));
  EXPECT_THAT(KindsOf(R"({"full_attention_interval": 2,
                          "layer_types": ["full_attention", "linear_attention"]})",
                      2),
              ElementsAre(kFull, kLinear));
}

TEST(LayerKind, OneLayerOfAPeriodHasAttention) {
  EXPECT_THAT(KindsOf(R"({"attn_layer_period": 3, "attn_layer_offset": 1})"),
              ElementsAre(kMamba, kFull, kMamba, kMamba));
  EXPECT_EQ(ReadKindsOf(R"({"attn_layer_period": 3})").layers[0].words, "");
}

TEST(LayerKind, ListsMayNameBlocksForMultiTokenPrediction) {
  EXPECT_THAT(KindsOf(R"({"hybrid_layer_pattern": [0, 1, 1]})", 2, 1),
              ElementsAre(kFull, kWindow, kWindow));
}

TEST(LayerKind, IsUnnamedWhereTheConfigDoesNotSay) {
  const LayerKinds kinds = ReadKindsOf("{}", 1);
  EXPECT_EQ(kinds.field, "");
  EXPECT_EQ(kinds.layers[0].kind, LayerKind::kUnnamed);
}

TEST(LayerKind, FieldsOfAnotherTypeAreAnError) {
  ConfigFaults faults;
  const auto kinds = ReadLayerKinds(
      *HfConfig::Parse("config.json", R"({"full_attention_interval": "4"})"), {4, 0}, faults);
  ASSERT_FALSE(kinds);
  EXPECT_EQ(kinds.error().code, Code::kCorrupt);
}

TEST(LayerKind, HasTheNameThatLayerTypesGivesIt) {
  EXPECT_EQ(LayerKindName(kFull), "full_attention");
  EXPECT_EQ(LayerKindName(kExperts), "moe");
  EXPECT_EQ(LayerKindName(kOther), "another kind");
  EXPECT_EQ(KindOfBlock("M"), kMamba);
  EXPECT_EQ(KindOfBlock("X"), kOther);
}

}  // namespace
}  // namespace moepack
