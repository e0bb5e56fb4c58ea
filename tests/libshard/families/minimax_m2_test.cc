#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

ConvertSample Minimax() {
  ConvertSample sample;
  sample.config = Json::parse(R"({"architectures": ["MiniMaxM2ForCausalLM"],
    "model_type": "minimax_m2", "num_hidden_layers": 1, "hidden_size": 4, "head_dim": 4,
    "num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 2,
    "num_experts_per_tok": 1, "intermediate_size": 3, "rotary_dim": 2, "vocab_size": 5,
    "max_position_embeddings": 64, "num_mtp_modules": 3, "use_mtp": true,
    "tie_word_embeddings": false})");
  AddModel(sample);
  const std::string at = "model.layers.0.";
  sample.Add(at + "input_layernorm.weight", {4});
  sample.Add(at + "post_attention_layernorm.weight", {4});
  const std::pair<const char*, uint64_t> rows[] = {{"q", 8}, {"k", 4}, {"v", 4}};
  for (const auto& [part, size] : rows) {
    sample.Add(at + "self_attn." + part + "_proj.weight", {size, 4});
  }
  sample.Add(at + "self_attn.o_proj.weight", {4, 8});
  sample.Add(at + "self_attn.q_norm.weight", {8});
  sample.Add(at + "self_attn.k_norm.weight", {4});
  sample.Add(at + "block_sparse_moe.gate.weight", {2, 4});
  sample.Add(at + "block_sparse_moe.e_score_correction_bias", {2});
  for (const char* expert : {"0", "1"}) {
    const std::string module = at + "block_sparse_moe.experts." + expert;
    sample.Add(module + ".w1.weight", {3, 4});
    sample.Add(module + ".w2.weight", {4, 3});
    sample.Add(module + ".w3.weight", {3, 4});
  }
  return sample;
}

TEST(MinimaxM2, AlwaysWritesHowExpertsAreScored) {
  ConvertSample sample = Minimax();
  EXPECT_EQ(Converted(sample).metadata.Uint("minimax-m2.expert_gating_func"), 2u);
  sample.config["scoring_func"] = nullptr;
  EXPECT_EQ(Converted(sample).metadata.Uint("minimax-m2.expert_gating_func"), 2u);
}

TEST(MinimaxM2, WritesTheWidthOfExpertsUnderBothKeys) {
  const GgufMetadata keys = Converted(Minimax()).metadata;
  EXPECT_EQ(keys.Uint("minimax-m2.feed_forward_length"), 3u);
  EXPECT_EQ(keys.Uint("minimax-m2.expert_feed_forward_length"), 3u);
  EXPECT_EQ(*keys.Find("minimax-m2.rope.freq_base"), GgufValue::F32(5e6f));
}

TEST(MinimaxM2, RotatesOnlyPartOfAHead) {
  ConvertSample sample = Minimax();
  const auto rotated = [&] {
    return Converted(sample).metadata.Uint("minimax-m2.rope.dimension_count");
  };
  EXPECT_EQ(rotated(), 2u);
  sample.config.erase("rotary_dim");
  EXPECT_EQ(rotated(), 4u);
  sample.config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(rotated(), 2u);
  sample.config["rope_parameters"]["partial_rotary_factor"] = 2;
  EXPECT_THAT(sample.Convert().error().message, HasSubstr("a number from 0 to 1"));
}

TEST(MinimaxM2, KnowsThatW1IsTheGateW3UpAndW2Down) {
  ConvertSample sample = Minimax();
  const GgufModel model = Converted(sample);
  const std::pair<const char*, const char*> pairs[] = {
      {"w1", "gate"}, {"w3", "up"}, {"w2", "down"}};
  for (const auto& [source, target] : pairs) {
    std::vector<float> first =
        sample.Values(model, std::string("blk.0.ffn_") + target + "_exps.weight");
    first.resize(12);
    EXPECT_EQ(first, sample.Values(std::string("model.layers.0.block_sparse_moe.experts.0.") +
                                   source + ".weight"));
  }
}

TEST(MinimaxM2, QueriesAndKeysKeepTheirOrder) {
  ConvertSample sample = Minimax();
  const GgufModel model = Converted(sample);
  for (const char* part : {"q", "k"}) {
    EXPECT_EQ(sample.Values(model, std::string("blk.0.attn_") + part + ".weight"),
              sample.Values(std::string("model.layers.0.self_attn.") + part + "_proj.weight"));
  }
}

// Transformers 5 saves the experts fused, and everything of the router under mlp.
TEST(MinimaxM2, ConvertsUnderTheNamesOfTransformers5) {
  ConvertSample sample = Minimax();
  const std::string at = "model.layers.0.", experts = at + "block_sparse_moe.experts.";
  std::vector<float> gate_up, down;
  for (const std::string expert : {"0.", "1."}) {
    for (const char* part : {"w1", "w3"})
      for (const float value : sample.Values(experts + expert + part + ".weight"))
        gate_up.push_back(value);
    for (const float value : sample.Values(experts + expert + "w2.weight")) down.push_back(value);
  }
  const GgufModel before = Converted(sample);
  ConvertSample renamed = Minimax();
  renamed.Remove("experts.");
  for (fixtures::RawTensor& tensor : renamed.tensors) {
    if (const size_t found = tensor.name.find("block_sparse_moe"); found != std::string::npos)
      tensor.name.replace(found, std::strlen("block_sparse_moe"), "mlp");
  }
  const auto add = [&](const char* name, const std::vector<uint64_t>& shape,
                       const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    renamed.tensors.push_back({at + "mlp.experts." + name, "F32", shape, bytes});
  };
  add("gate_up_proj", {2, 6, 4}, gate_up);
  add("down_proj", {2, 4, 3}, down);
  const GgufModel after = Converted(renamed);
  ASSERT_EQ(after.tensors.size(), before.tensors.size());
  for (const GgufTensor& tensor : before.tensors)
    EXPECT_EQ(renamed.Values(after, tensor.name), sample.Values(before, tensor.name))
        << tensor.name;
}

TEST(MinimaxM2, RequiresASelectionBiasAndNorms) {
  for (const char* name : {"e_score_correction_bias", "q_norm", "k_norm"}) {
    ConvertSample sample = Minimax();
    sample.Remove(name);
    const auto model = sample.Convert();
    ASSERT_FALSE(model) << name;
    EXPECT_THAT(model.error().message, HasSubstr(name));
  }
}

}  // namespace
}  // namespace moepack
