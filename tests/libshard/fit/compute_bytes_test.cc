#include "libshard/fit/compute_bytes.h"

#include <gtest/gtest.h>

#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

// 512 tokens x 4 bytes x (151,936 logits + 8 x 2,048 + 8 x (2,048 + 3 x 768) + 32,768 of the mask).
TEST(ComputeBytes, CoverABatchInF32) {
  ModelConfig config;
  config.hidden_size = 2048;
  config.expert_intermediate_size = 768;
  config.vocab_size = 151936;
  const MoeModel model = ModelForTest(config).Family("qwen3-moe").Layers(2, 128, 8).Build();
  EXPECT_EQ(ComputeBytes(model, 32768), 512u * 4 * (151936 + 16384 + 8 * 4352 + 32768));
}

}  // namespace
}  // namespace moepack
