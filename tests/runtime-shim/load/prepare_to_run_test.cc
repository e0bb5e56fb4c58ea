#include "runtime-shim/load/prepare_to_run.h"

#include <gtest/gtest.h>

#include "tests/libshard/convert/qwen_hybrid_sample.h"

namespace moepack::runtime {
namespace {

// The layers were pruned to two experts, the block for multi-token prediction kept three. A file
// could not hold both, but the block is not run.
TEST(PrepareToRun, LeavesOutABlockThatWasNotPrunedWithTheLayers) {
  QwenHybridSample sample("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe");
  const std::string linear = "model.layers.0.linear_attn.";
  sample.Add(linear + "in_proj_qkv.weight", {16, 4});
  sample.Add(linear + "in_proj_z.weight", {8, 4});
  sample.Add(linear + "in_proj_b.weight", {4, 4});
  sample.Add(linear + "in_proj_a.weight", {4, 4});
  const auto blocks = [&](const MoeModel& model) -> Result<uint64_t> {
    SHARD_TRY(const TypedGguf typed, PrepareToRun(model));
    return typed.model.metadata.Uint("qwen35moe.block_count").value_or(0);
  };
  const auto whole = sample.Open();
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(*blocks(*whole), 3u);
  sample.Reshape("mtp.layers.0.mlp.gate.weight", {3, 4});
  sample.Reshape("mtp.layers.0.mlp.experts.gate_up_proj", {3, 4, 4});
  sample.Reshape("mtp.layers.0.mlp.experts.down_proj", {3, 4, 2});
  const auto pruned = sample.Open();
  ASSERT_TRUE(pruned) << pruned.error().message;
  const auto count = blocks(*pruned);
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, 2u);
}

}  // namespace
}  // namespace moepack::runtime
