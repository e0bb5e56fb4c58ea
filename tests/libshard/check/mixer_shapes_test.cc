#include "libshard/check/mixer_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/format/bent_checkpoint.h"

namespace moepack {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MixerShapes, NamesATensorOfAnotherShapeInEveryKindOfLayer) {
  const struct {
    const char *layout, *tensor;
    std::vector<uint64_t> shape;
    const char* finding;
  } rows[] = {
      {"nemotron-3",
       "backbone.layers.0.mixer.conv1d.weight",
       {128, 1, 3},
       "expected [128, 1, 4] (sizes of Mamba layers, hidden_size), found [128, 1, 3]"},
      {"nemotron-3", "backbone.layers.0.mixer.D", {5}, "expected [4]"},
      {"granite-moe-hybrid",
       "model.layers.0.mamba.in_proj.weight",
       {320, 64},
       "expected [328, 64]"},
      {"bailing-moe-v3",
       "model.layers.1.attention.k_conv1d.weight",
       {64, 1, 5},
       "expected [64, 1, 4] (sizes of linear attention, hidden_size), found [64, 1, 5]"},
      {"bailing-moe-v3", "model.layers.1.attention.A_log", {8}, "expected [4]"},
      {"kimi-k3", "language_model.model.layers.0.self_attn.o_norm.weight", {64}, "expected [16]"},
      {"lfm2-moe",
       "model.layers.0.conv.conv.weight",
       {64, 1, 4},
       "expected [64, 1, 3] (kernel of short convolutions, hidden_size), found [64, 1, 4]"},
      {"lfm2-moe", "model.layers.0.conv.in_proj.weight", {128, 64}, "expected [192, 64]"},
      {"qwen3-next", "model.layers.0.linear_attn.dt_bias", {3}, "found [3]"},
      {"step-3.5",
       "model.layers.1.self_attn.q_proj.weight",
       {48, 64},
       "(heads of the layer and their size, hidden_size), found [48, 64]"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.tensor);
    BentCheckpoint checkpoint(row.layout);
    EXPECT_THAT(checkpoint.Findings(), IsEmpty());
    checkpoint.Reshape(row.tensor, row.shape);
    EXPECT_THAT(checkpoint.Findings(),
                ElementsAre(testing::AllOf(HasSubstr(row.tensor), HasSubstr(row.finding))));
  }
}

TEST(MixerShapes, HeadsMayBeListedByLayer) {
  BentCheckpoint checkpoint("laguna");
  checkpoint.config["num_attention_heads_per_layer"] = {4, 8, 4};
  const std::string why = " (heads of the layer and their size, hidden_size), found ";
  EXPECT_THAT(
      checkpoint.Findings(),
      ElementsAre(
          "misshapen: tensor \"model.layers.1.self_attn.o_proj.weight\": expected [64, 128]" + why +
              "[64, 64]",
          "misshapen: tensor \"model.layers.1.self_attn.q_proj.weight\": expected [128, 64]" + why +
              "[64, 64]"));
  checkpoint.Reshape("model.layers.1.self_attn.q_proj.weight", {128, 64});
  checkpoint.Reshape("model.layers.1.self_attn.o_proj.weight", {64, 128});
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
  checkpoint.config["num_attention_heads_per_layer"] = {4, 3, 0};
  EXPECT_THAT(checkpoint.Findings(),
              Contains(HasSubstr("num_attention_heads_per_layer[1]: expected a multiple of the 2 "
                                 "key heads, found 3")));
  EXPECT_THAT(checkpoint.Findings(), Contains(HasSubstr("num_attention_heads_per_layer[2]")));
}

TEST(MixerShapes, SizesOfZeroAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"nemotron-3", "ssm_state_size"},       {"nemotron-3", "conv_kernel"},
      {"granite-moe-hybrid", "mamba_d_head"}, {"bailing-moe-v3", "short_conv_kernel_size"},
      {"lfm2-moe", "conv_L_cache"},           {"qwen3-next", "linear_key_head_dim"},
      {"glm-5.2", "index_head_dim"}};
  for (const auto& [layout, field] : rows) {
    BentCheckpoint checkpoint(layout);
    checkpoint.config[field] = 0;
    EXPECT_THAT(checkpoint.Findings(),
                Contains(HasSubstr(std::string(field) + ": expected at least 1, found 0")))
        << layout;
  }
}

// MLX stores the channels of a convolution last.
TEST(MixerShapes, AConvolutionMayHaveItsChannelsLast) {
  BentCheckpoint checkpoint("lfm2-moe");
  checkpoint.Reshape("model.layers.0.conv.conv.weight", {64, 3, 1});
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
}

}  // namespace
}  // namespace moepack
