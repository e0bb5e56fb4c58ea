#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/check/shapes.h"
#include "tests/libshard/format/bent_checkpoint.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Sizes that differ from each other, so that no transposed matrix fits by chance.
const fixtures::Options kOdd = {.hidden = 64, .ff = 48, .vocabulary = 100};

TEST(CheckShapes, ReportsEmbeddingAndHeadOfAnotherVocabularySize) {
  BentCheckpoint checkpoint("qwen3-moe", kOdd);
  checkpoint.config["vocab_size"] = 96;
  EXPECT_THAT(
      checkpoint.Findings(),
      ElementsAre("misshapen: tensor \"model.embed_tokens.weight\": expected [96, 64] (vocab_size, "
                  "hidden_size), found [100, 64]",
                  "misshapen: tensor \"lm_head.weight\": expected [96, 64] (vocab_size, "
                  "hidden_size), found [100, 64]"));
}

TEST(CheckShapes, EqualFindingsAreCounted) {
  BentCheckpoint checkpoint("qwen3-moe", kOdd);
  checkpoint.config["moe_intermediate_size"] = 32;
  const std::string why = " (width of an expert and hidden size), found ";
  EXPECT_THAT(
      checkpoint.Findings(),
      ElementsAre("misshapen: tensor \"model.layers.0.mlp.experts.0.down_proj.weight\" and 17 like "
                  "it: expected [64, 32]" +
                      why + "[64, 48]",
                  "misshapen: tensor \"model.layers.0.mlp.experts.0.gate_proj.weight\" and 17 like "
                  "it: expected [32, 64]" +
                      why + "[48, 64]",
                  "misshapen: tensor \"model.layers.0.mlp.experts.0.up_proj.weight\" and 17 like "
                  "it: expected [32, 64]" +
                      why + "[48, 64]"));
}

TEST(CheckShapes, ATransposedExpertIsNamed) {
  BentCheckpoint checkpoint("mixtral", kOdd);
  checkpoint.Reshape("model.layers.1.block_sparse_moe.experts.3.w2.weight", {48, 64});
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("misshapen: tensor \"model.layers.1.block_sparse_moe.experts.3.w2."
                          "weight\": expected [64, 48] (width of an expert and hidden size), "
                          "found [48, 64]"));
}

TEST(CheckShapes, ReportsRoutersNormsSharedAndDenseParts) {
  BentCheckpoint checkpoint("glm-4.5", kOdd);
  checkpoint.Reshape("model.layers.1.mlp.gate.weight", {6, 60});
  checkpoint.Reshape("model.layers.2.input_layernorm.weight", {60});
  checkpoint.Reshape("model.layers.1.mlp.shared_experts.up_proj.weight", {64, 48});
  checkpoint.Reshape("model.layers.0.mlp.down_proj.weight", {96, 64});
  checkpoint.Reshape("model.layers.3.eh_proj.weight", {64, 64});
  EXPECT_THAT(
      checkpoint.Findings(),
      testing::UnorderedElementsAre(
          "misshapen: tensor \"model.layers.1.mlp.gate.weight\": expected [any, 64] (any, "
          "hidden_size), found [6, 60]",
          "misshapen: tensor \"model.layers.2.input_layernorm.weight\": expected [64] "
          "(hidden_size), found [60]",
          "misshapen: tensor \"model.layers.1.mlp.shared_experts.up_proj.weight\": expected "
          "[48, 64] (width of the shared experts), found [64, 48]",
          "misshapen: tensor \"model.layers.0.mlp.down_proj.weight\": expected [64, 96] (width of "
          "the dense feed-forward part), found [96, 64]",
          "misshapen: tensor \"model.layers.3.eh_proj.weight\": expected [64, 128] (hidden_size, "
          "twice), found [64, 64]"));
}

TEST(CheckShapes, ReportsHeadsAndTheirBiases) {
  BentCheckpoint checkpoint("qwen2-moe", kOdd);
  checkpoint.Reshape("model.layers.1.self_attn.k_proj.weight", {64, 64});
  checkpoint.Reshape("model.layers.2.self_attn.q_proj.bias", {32});
  checkpoint.Reshape("model.layers.0.self_attn.o_proj.weight", {64, 32});
  const std::string why = " (heads and their size, hidden_size), found ";
  EXPECT_THAT(checkpoint.Findings(),
              testing::UnorderedElementsAre(
                  "misshapen: tensor \"model.layers.1.self_attn.k_proj.weight\": expected "
                  "[32, 64]" +
                      why + "[64, 64]",
                  "misshapen: tensor \"model.layers.2.self_attn.q_proj.bias\": expected [64]" +
                      why + "[32]",
                  "misshapen: tensor \"model.layers.0.self_attn.o_proj.weight\": expected "
                  "[64, 64]" +
                      why + "[64, 32]"));
}

TEST(CheckShapes, QueriesMayHaveGates) {
  BentCheckpoint checkpoint("qwen3.5-moe");
  checkpoint.config["text_config"]["head_dim"] = 16;
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
  checkpoint.config["text_config"]["head_dim"] = 8;
  EXPECT_EQ(checkpoint.Findings().size(), 8u) << "q, k, v and o, also of the MTP block";
}

TEST(CheckShapes, LatentAttentionIsCheckedWhereItsSizesAreGiven) {
  BentCheckpoint checkpoint("deepseek-v3");
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
  const uint64_t nope = checkpoint.config["qk_nope_head_dim"];
  checkpoint.config["qk_nope_head_dim"] = nope + 8;
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("misshapen: tensor \"model.layers.0.self_attn.kv_b_proj.weight\" and 3 "
                          "like it: expected [224, 32] (sizes of latent attention), found "
                          "[192, 32]",
                          "misshapen: tensor \"model.layers.0.self_attn.q_b_proj.weight\" and 3 "
                          "like it: expected [224, 32] (sizes of latent attention), found "
                          "[192, 32]"));
}

TEST(CheckShapes, ReportsPackedExpertsOfBothOrientations) {
  BentCheckpoint stacked("qwen3.5-moe", {.ff = 48});
  stacked.Reshape("model.language_model.layers.1.mlp.experts.gate_up_proj", {6, 64, 96});
  EXPECT_THAT(stacked.Findings(),
              ElementsAre("misshapen: tensor \"model.language_model.layers.1.mlp.experts."
                          "gate_up_proj\": expected [any, 96, 64] (width of an expert and hidden "
                          "size), found [6, 64, 96]"));
  BentCheckpoint transposed("llama-4", {.ff = 48});
  transposed.Reshape("language_model.model.layers.1.feed_forward.experts.down_proj", {6, 64, 48});
  EXPECT_THAT(transposed.Findings(),
              ElementsAre("misshapen: tensor \"language_model.model.layers.1.feed_forward.experts."
                          "down_proj\": expected [any, 48, 64] (width of an expert and hidden "
                          "size), found [6, 64, 48]"));
}

TEST(CheckShapes, CountsPackedValuesByTheirBits) {
  BentCheckpoint mlx("qwen3-moe-mlx");
  mlx.Reshape("model.layers.0.mlp.switch_mlp.down_proj.weight", {6, 64, 7});
  EXPECT_THAT(mlx.Findings(),
              ElementsAre("misshapen: tensor \"model.layers.0.mlp.switch_mlp.down_proj.weight\": "
                          "expected [any, 64, 64] (width of an expert and hidden size, packed), "
                          "found [6, 64, 7] of U32"));
  BentCheckpoint blocks("gpt-oss");
  blocks.Reshape("model.layers.2.mlp.experts.down_proj_blocks", {4, 64, 3, 16});
  EXPECT_THAT(blocks.Findings(),
              ElementsAre("misshapen: tensor \"model.layers.2.mlp.experts.down_proj_blocks\": "
                          "expected [any, 64, 64] (width of an expert and hidden size, packed), "
                          "found [4, 64, 3, 16] of U8"));
}

TEST(CheckShapes, SkipsWhatTheConfigDoesNotSay) {
  BentCheckpoint checkpoint("qwen3-moe", kOdd);
  for (const char* field : {"vocab_size", "moe_intermediate_size", "hidden_size",
                            "num_attention_heads", "intermediate_size"}) {
    checkpoint.config.erase(field);
  }
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
}

}  // namespace
}  // namespace moepack
