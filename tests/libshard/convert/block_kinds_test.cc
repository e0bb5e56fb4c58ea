#include "libshard/convert/block_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

using testing::ElementsAre;

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
