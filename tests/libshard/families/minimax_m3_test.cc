#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// Layer 0 is dense, layer 1 has two experts, a shared one and an indexer with two heads of two
// values, under the names of the release.
ConvertSample MinimaxM3() {
  ConvertSample sample;
  sample.config = Json::parse(R"({"architectures": ["MiniMaxM3SparseForConditionalGeneration"],
      "model_type": "minimax_m3_vl", "text_config": {"model_type": "minimax_m2",
      "num_hidden_layers": 2, "hidden_size": 4, "head_dim": 2, "num_attention_heads": 2,
      "num_key_value_heads": 1, "num_local_experts": 2, "num_experts_per_tok": 1,
      "intermediate_size": 2, "dense_intermediate_size": 3, "n_shared_experts": 1,
      "moe_layer_freq": [0, 1], "rotary_dim": 2, "vocab_size": 5, "hidden_act": "swigluoai",
      "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "use_gemma_norm": true, "num_mtp_modules": 7,
      "routed_scaling_factor": 2.0, "max_position_embeddings": 64, "tie_word_embeddings": false,
      "sparse_attention_config": {"sparse_num_index_heads": 2, "sparse_index_dim": 2,
        "sparse_topk_blocks": 3, "sparse_block_size": 4, "sparse_local_block": 1}}})");
  AddTokenizer(sample);
  sample.Add("language_model.model.embed_tokens.weight", {5, 4});
  sample.Add("language_model.model.norm.weight", {4});
  sample.Add("language_model.lm_head.weight", {5, 4});
  for (const char* number : {"0", "1"}) {
    const std::string at = Cat("language_model.model.layers.", number, ".");
    sample.Add(at + "input_layernorm.weight", {4});
    sample.Add(at + "post_attention_layernorm.weight", {4});
    for (const char* part : {"k", "v"})
      sample.Add(Cat(at, "self_attn.", part, "_proj.weight"), {2, 4});
    for (const char* part : {"q", "o"})
      sample.Add(Cat(at, "self_attn.", part, "_proj.weight"), {4, 4});
    for (const char* part : {"q", "k"})
      sample.Add(Cat(at, "self_attn.", part, "_norm.weight"), {2});
  }
  const std::string dense = "language_model.model.layers.0.mlp.";
  for (const char* part : {"gate", "up"}) sample.Add(Cat(dense, part, "_proj.weight"), {3, 4});
  sample.Add(dense + "down_proj.weight", {4, 3});
  const std::string at = "language_model.model.layers.1.", moe = at + "block_sparse_moe.";
  sample.Add(at + "self_attn.index_q_proj.weight", {4, 4});
  sample.Add(at + "self_attn.index_k_proj.weight", {2, 4});
  for (const char* part : {"q", "k"})
    sample.Add(Cat(at, "self_attn.index_", part, "_norm.weight"), {2});
  sample.Add(moe + "gate.weight", {2, 4});
  sample.Add(moe + "e_score_correction_bias", {2});
  for (const char* id : {"0", "1"}) {
    for (const char* part : {"w1", "w3"})
      sample.Add(Cat(moe, "experts.", id, ".", part, ".weight"), {2, 4});
    sample.Add(Cat(moe, "experts.", id, ".w2.weight"), {4, 2});
  }
  for (const char* part : {"gate", "up"})
    sample.Add(Cat(moe, "shared_experts.", part, "_proj.weight"), {2, 4});
  sample.Add(moe + "shared_experts.down_proj.weight", {4, 2});
  sample.Add("vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", {4, 4});
  sample.Add("multi_modal_projector.linear_1.weight", {4, 4});
  sample.Add("patch_merge_mlp.linear_1.weight", {4, 4});
  return sample;
}

const GgufTensor* Found(const GgufModel& model, const std::string& name) {
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.name == name) return &tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return nullptr;
}

TEST(MinimaxM3, IsFoundUnderTheNamesOfTheReleaseAndLeavesTheTowerOut) {
  const GgufModel model = Converted(MinimaxM3());
  EXPECT_EQ(model.architecture(), "minimax-m3");
  EXPECT_THAT(model.warnings, testing::ElementsAre(HasSubstr("left out 3 vision tensors")));
  const GgufMetadata& keys = model.metadata;
  EXPECT_EQ(keys.Uint("minimax-m3.feed_forward_length"), 3u);
  EXPECT_EQ(keys.Uint("minimax-m3.expert_feed_forward_length"), 2u);
  EXPECT_EQ(keys.Uint("minimax-m3.leading_dense_block_count"), 1u);
  EXPECT_EQ(keys.Uint("minimax-m3.attention.indexer.top_k"), 3u);
  EXPECT_EQ(keys.Uint("minimax-m3.attention.indexer.block_size"), 4u);
}

TEST(MinimaxM3, KeepsTheProjectionsOfTheIndexerInF32) {
  const GgufModel model = Converted(MinimaxM3());
  for (const char* part : {"q", "k"}) {
    EXPECT_TRUE(Found(model, Cat("blk.1.indexer.", part, "_proj.weight"))->fixed) << part;
    EXPECT_FALSE(Found(model, Cat("blk.1.attn_", part, ".weight"))->fixed) << part;
  }
}

TEST(MinimaxM3, AddsOneToAllNormsOfTheTextModel) {
  ConvertSample sample = MinimaxM3();
  const GgufModel model = Converted(sample);
  const std::pair<const char*, const char*> rows[] = {
      {"norm", "output_norm"},
      {"layers.0.input_layernorm", "blk.0.attn_norm"},
      {"layers.1.post_attention_layernorm", "blk.1.ffn_norm"},
      {"layers.1.self_attn.q_norm", "blk.1.attn_q_norm"},
      {"layers.1.self_attn.index_k_norm", "blk.1.indexer.k_norm"}};
  for (const auto& [source, target] : rows) {
    std::vector<float> expected = sample.Values(Cat("language_model.model.", source, ".weight"));
    for (float& value : expected) value += 1;
    EXPECT_EQ(sample.Values(model, Cat(target, ".weight")), expected) << source;
  }
}

TEST(MinimaxM3, IsRefusedWhereTheGraphHasSomethingElseBuiltIn) {
  const std::pair<const char*, Json> changes[] = {{"swiglu_alpha", 1.5},
                                                  {"swiglu_limit", 6.0},
                                                  {"use_gemma_norm", false},
                                                  {"qk_norm_type", "per_layer"},
                                                  {"hidden_act", "silu"}};
  for (const auto& [field, value] : changes) {
    ConvertSample sample = MinimaxM3();
    sample.config["text_config"][field] = value;
    const Error error = ConversionError(sample);
    EXPECT_EQ(error.code, Code::kUnsupported) << field;
    EXPECT_THAT(error.message, HasSubstr(field));
  }
}

TEST(MinimaxM3, TheSizesOfSparseAttentionAreAtLeastOne) {
  ConvertSample sample = MinimaxM3();
  sample.config["text_config"]["sparse_attention_config"]["sparse_topk_blocks"] = 0;
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("sparse_topk_blocks: expected at least 1, found 0"));
}

TEST(MinimaxM3, IsRefusedWhereAttentionIsSparseInOtherLayers) {
  ConvertSample sample = MinimaxM3();
  sample.config["text_config"]["sparse_attention_config"]["sparse_attention_freq"] = {1, 1};
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("sparse_attention_freq[0]: expected 0, since the runtime's attention is "
                        "sparse in the layers with experts, found 1"));
}

TEST(MinimaxM3, RequiresAnIndexerInLayersWithExperts) {
  for (const char* part : {"q_proj", "k_proj", "q_norm", "k_norm"}) {
    ConvertSample sample = MinimaxM3();
    sample.Remove(Cat("index_", part));
    EXPECT_THAT(ConversionError(sample).message,
                HasSubstr(Cat("layer 1: expected blk.1.indexer.", part, ".weight")));
  }
}

}  // namespace
}  // namespace moepack
