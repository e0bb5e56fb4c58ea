#include "runtime-shim/load/gguf_blocks.h"

#include <gmock/gmock.h>

namespace moepack::runtime {
namespace {

GgufMetadata Metadata(uint32_t blocks, uint32_t nextn) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("glm4moe"));
  metadata.Set("glm4moe.block_count", GgufValue::U32(blocks));
  metadata.Set("glm4moe.nextn_predict_layers", GgufValue::U32(nextn));
  metadata.Set("glm4moe.expert_count", GgufValue::U32(8));
  metadata.Set("glm4moe.expert_used_count", GgufValue::U32(2));
  return metadata;
}

TEST(LoadGgufBlocks, ReadsBlockNumbersFromNames) {
  EXPECT_EQ(BlockOf("blk.12.ffn_up_exps.weight"), 12u);
  EXPECT_EQ(BlockOf("output.weight"), std::nullopt);
  EXPECT_EQ(BlockOf("blk.x.weight"), std::nullopt);
  EXPECT_GT(BlockOf("blk.18446744073709551615.weight"), 4096u);
}

TEST(LoadGgufBlocks, BlocksForMultiTokenPredictionDoNotRun) {
  const auto blocks = RunningBlocks::Of("m", Metadata(5, 2));
  ASSERT_TRUE(blocks) << blocks.error().message;
  EXPECT_TRUE(blocks->Runs("token_embd.weight"));
  EXPECT_TRUE(blocks->Runs("blk.2.attn_norm.weight"));
  EXPECT_FALSE(blocks->Runs("blk.3.attn_norm.weight"));
  Weights weights;
  blocks->AddNote(weights);
  EXPECT_THAT(weights.notes,
              testing::ElementsAre("2 blocks for multi-token prediction: not loaded"));
  Plan plan;
  plan.layers = plan.top_k = {{2, 8}, {3, 8}};
  plan.groups.resize(1);
  plan.groups[0].owned = {{2, {0}}, {3, {0}}};
  plan.overlays = {{"v1", "", plan.groups[0].owned, {{{3, {1}}}}}};
  plan = blocks->Trim(plan);
  EXPECT_EQ(plan.layers.size(), 1u);
  EXPECT_EQ(plan.overlays[0].experts_by_layer.size(), 1u);
  EXPECT_TRUE(plan.overlays[0].fill.empty());
  EXPECT_EQ(plan.groups[0].owned.size(), 1u);
}

TEST(LoadGgufBlocks, RefusesMorePredictionBlocksThanBlocks) {
  const auto blocks = RunningBlocks::Of("m", Metadata(2, 2));
  ASSERT_FALSE(blocks);
  EXPECT_EQ(blocks.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack::runtime
