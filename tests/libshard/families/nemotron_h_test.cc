#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/converted.h"
#include "tests/libshard/convert/latent_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Optional;
using testing::Pointwise;

// Layer 0 is Mamba with two heads of two values in two groups and a state of one number, layer 1
// experts of width 2, layer 2 attention.
ConvertSample Nemotron() {
  ConvertSample sample;
  sample.config = Json::parse(R"({"architectures": ["NemotronHForCausalLM"],
      "model_type": "nemotron_h", "num_hidden_layers": 3, "hidden_size": 4,
      "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 2,
      "moe_intermediate_size": 2, "moe_shared_expert_intermediate_size": 3,
      "n_routed_experts": 2, "n_shared_experts": 1, "num_experts_per_tok": 1, "vocab_size": 5,
      "hybrid_override_pattern": "ME*", "max_position_embeddings": 64, "norm_eps": 1e-5,
      "mamba_num_heads": 2, "mamba_head_dim": 2, "n_groups": 2, "ssm_state_size": 1,
      "conv_kernel": 3, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "n_group": 1,
      "topk_group": 1, "tie_word_embeddings": false})");
  AddTokenizer(sample);
  sample.Add("backbone.embeddings.weight", {5, 4});
  sample.Add("backbone.norm_f.weight", {4});
  sample.Add("lm_head.weight", {5, 4});
  for (const char* number : {"0", "1", "2"})
    sample.Add(Cat("backbone.layers.", number, ".norm.weight"), {4});
  const std::string mamba = "backbone.layers.0.mixer.";
  for (const char* name : {"A_log", "D", "dt_bias"}) sample.Add(mamba + name, {2});
  sample.Add(mamba + "conv1d.weight", {8, 1, 3});
  sample.Add(mamba + "conv1d.bias", {8});
  sample.Add(mamba + "in_proj.weight", {14, 4});
  sample.Add(mamba + "norm.weight", {4});
  sample.Add(mamba + "out_proj.weight", {4, 4});
  const std::string moe = "backbone.layers.1.mixer.";
  sample.Add(moe + "gate.weight", {2, 4});
  sample.Add(moe + "gate.e_score_correction_bias", {2});
  for (const char* id : {"0", "1"}) {
    sample.Add(Cat(moe, "experts.", id, ".up_proj.weight"), {2, 4});
    sample.Add(Cat(moe, "experts.", id, ".down_proj.weight"), {4, 2});
  }
  sample.Add(moe + "shared_experts.up_proj.weight", {3, 4});
  sample.Add(moe + "shared_experts.down_proj.weight", {4, 3});
  const std::string attention = "backbone.layers.2.mixer.";
  for (const char* part : {"k", "v"}) sample.Add(Cat(attention, part, "_proj.weight"), {2, 4});
  for (const char* part : {"q", "o"}) sample.Add(Cat(attention, part, "_proj.weight"), {4, 4});
  return sample;
}

std::vector<uint64_t> ShapeFor(const GgufModel& model, const std::string& name) {
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.name == name) return tensor.shape;
  }
  return {};
}

TEST(NemotronH, WritesTheKindOfEachLayerAsHeadsAndWidths) {
  const GgufMetadata keys = ConvertedKeys(Nemotron());
  EXPECT_THAT(keys.Find("nemotron_h_moe.attention.head_count_kv")->AsUints(),
              Optional(ElementsAre(0, 0, 1)));
  EXPECT_THAT(keys.Find("nemotron_h_moe.feed_forward_length")->AsUints(),
              Optional(ElementsAre(0, 2, 0)));
  const std::pair<const char*, uint64_t> expected[] = {{"context_length", 1 << 20},
                                                       {"ssm.conv_kernel", 3},
                                                       {"ssm.state_size", 1},
                                                       {"ssm.group_count", 2},
                                                       {"ssm.inner_size", 4},
                                                       {"ssm.time_step_rank", 2},
                                                       {"rope.dimension_count", 2},
                                                       {"expert_shared_count", 1},
                                                       {"expert_feed_forward_length", 2},
                                                       {"expert_shared_feed_forward_length", 3}};
  for (const auto& [key, value] : expected)
    EXPECT_EQ(keys.Uint(Cat("nemotron_h_moe.", key)), value) << key;
  EXPECT_EQ(keys.Find("nemotron_h_moe.moe_latent_size"), nullptr);
  EXPECT_EQ(*keys.Find("nemotron_h_moe.expert_weights_scale"), GgufValue::F32(2.5f));
}

TEST(NemotronH, ReadsKindsOfLayersAsWords) {
  ConvertSample sample = Nemotron();
  sample.config.erase("hybrid_override_pattern");
  sample.config["layers_block_type"] = {"mamba", "moe", "attention"};
  const GgufMetadata words = ConvertedKeys(sample), letters = ConvertedKeys(Nemotron());
  for (const char* key : {"attention.head_count_kv", "feed_forward_length"}) {
    const std::string name = Cat("nemotron_h_moe.", key);
    EXPECT_EQ(*words.Find(name), *letters.Find(name)) << key;
  }
}

TEST(NemotronH, MambasVectorsAreColumnsAndItsNormHasARowPerGroup) {
  ConvertSample sample = Nemotron();
  const GgufModel model = Converted(sample);
  const std::string mamba = "backbone.layers.0.mixer.";
  std::vector<float> decay = sample.Values(mamba + "A_log");
  for (float& value : decay) value = -std::exp(value);
  EXPECT_THAT(sample.Values(model, "blk.0.ssm_a"), Pointwise(FloatEq(), decay));
  EXPECT_THAT(ShapeFor(model, "blk.0.ssm_a"), ElementsAre(2, 1));
  EXPECT_EQ(sample.Values(model, "blk.0.ssm_d"), sample.Values(mamba + "D"));
  EXPECT_THAT(ShapeFor(model, "blk.0.ssm_d"), ElementsAre(2, 1));
  EXPECT_EQ(sample.Values(model, "blk.0.ssm_norm.weight"), sample.Values(mamba + "norm.weight"));
  EXPECT_THAT(ShapeFor(model, "blk.0.ssm_norm.weight"), ElementsAre(2, 2));
  EXPECT_THAT(ShapeFor(model, "blk.0.ssm_conv1d.weight"), ElementsAre(8, 3));
  EXPECT_THAT(ShapeFor(model, "blk.0.ssm_dt.bias"), ElementsAre(2));
}

TEST(NemotronH, ExpertsOfSuperWorkBetweenTwoProjections) {
  ConvertSample sample = Nemotron();
  sample.config["moe_latent_size"] = 3;
  sample.Remove("layers.1.mixer.experts.");
  for (const char* id : {"0", "1"}) {
    const std::string expert = Cat("backbone.layers.1.mixer.experts.", id);
    sample.Add(expert + ".up_proj.weight", {2, 3});
    sample.Add(expert + ".down_proj.weight", {3, 2});
  }
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("layer 1: expected a layer of moe as the config has it, found no "
                        "blk.1.ffn_latent_down.weight"));
  sample.Add("backbone.layers.1.mixer.fc1_latent_proj.weight", {3, 4});
  sample.Add("backbone.layers.1.mixer.fc2_latent_proj.weight", {4, 3});
  const GgufModel model = Converted(sample);
  EXPECT_EQ(model.metadata.Uint("nemotron_h_moe.moe_latent_size"), 3u);
  EXPECT_THAT(ShapeFor(model, "blk.1.ffn_latent_down.weight"), ElementsAre(3, 4));
  EXPECT_THAT(ShapeFor(model, "blk.1.ffn_latent_up.weight"), ElementsAre(4, 3));
}

TEST(NemotronH, RequiresTheTensorsOfEachKindOfLayer) {
  ConvertSample sample = Nemotron();
  sample.config["hybrid_override_pattern"] = "*EM";
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("layer 0: "));
  sample = Nemotron();
  sample.Remove("layers.0.mixer.D");
  EXPECT_THAT(ConversionError(sample).message,
              HasSubstr("layer 0: expected a layer of mamba as the config has it, found no "
                        "blk.0.ssm_d"));
}

// The error for config.json alone.
Error NemotronKeyError(const ConvertSample& sample) {
  ConvertOptions options;
  options.part = ConvertOptions::Part::kKeys;
  const auto keys = sample.Convert(options);
  EXPECT_FALSE(keys);
  return keys ? Error{} : keys.error();
}

TEST(NemotronH, RefusesWhatTheRuntimeDoesDifferently) {
  const struct {
    const char* key;
    Json value;
    Code code;
    const char* message;
  } cases[] = {
      {"hybrid_override_pattern", "M-*", Code::kUnsupported,
       "hybrid_override_pattern[1]: expected mamba, full_attention or moe"},
      {"hybrid_override_pattern", "ME", Code::kCorrupt,
       "hybrid_override_pattern: expected one entry per layer (3), found 2"},
      {"mlp_hidden_act", "silu", Code::kUnsupported, "mlp_hidden_act: expected relu2"},
      {"mamba_hidden_act", "gelu", Code::kUnsupported, "mamba_hidden_act: expected silu"},
      {"time_step_limit", {0, 0.1}, Code::kUnsupported, "time_step_limit: expected no limit"},
      {"n_groups", 3, Code::kCorrupt, "a multiple of n_groups, 3"},
      {"mamba_head_dim", 1u << 31, Code::kCorrupt, "a size of a head"},
  };
  for (const auto& row : cases) {
    ConvertSample sample = Nemotron();
    sample.config[row.key] = row.value;
    const Error error = NemotronKeyError(sample);
    EXPECT_EQ(error.code, row.code) << row.key;
    EXPECT_THAT(error.message, HasSubstr(row.message));
  }
  ConvertSample sample = Nemotron();
  sample.config.erase("hybrid_override_pattern");
  EXPECT_THAT(NemotronKeyError(sample).message, HasSubstr("hybrid_override_pattern"));
  sample.config["layers_block_type"] = {"mamba", 7, "attention"};
  EXPECT_THAT(NemotronKeyError(sample).message, HasSubstr("layers_block_type[1]: expected mamba"));
}

// The same model as a Puzzle with one more layer, whose experts are wider.
ConvertSample Puzzle() {
  ConvertSample sample = Nemotron();
  for (const char* field :
       {"hybrid_override_pattern", "moe_intermediate_size", "num_experts_per_tok"})
    sample.config.erase(field);
  sample.config["architectures"] = {"NemotronHPuzzleForCausalLM"};
  sample.config["model_type"] = "nemotron_h_puzzle";
  sample.config["num_hidden_layers"] = 4;
  sample.config["block_configs"] = Json::parse(R"([{"block_type": "mamba"},
      {"block_type": "moe", "moe_intermediate_size": 2, "num_experts_per_tok": 1},
      {"block_type": "attention"},
      {"block_type": "moe", "moe_intermediate_size": 5, "num_experts_per_tok": 2}])");
  const std::string moe = "backbone.layers.3.mixer.";
  sample.Add("backbone.layers.3.norm.weight", {4});
  sample.Add(moe + "gate.weight", {2, 4});
  sample.Add(moe + "gate.e_score_correction_bias", {2});
  for (const char* id : {"0", "1"}) {
    sample.Add(Cat(moe, "experts.", id, ".up_proj.weight"), {5, 4});
    sample.Add(Cat(moe, "experts.", id, ".down_proj.weight"), {4, 5});
  }
  sample.Add(moe + "shared_experts.up_proj.weight", {3, 4});
  sample.Add(moe + "shared_experts.down_proj.weight", {4, 3});
  return sample;
}

TEST(NemotronH, WritesOneWidthAndOneNumberOfUsedExpertsForAllLayers) {
  const GgufMetadata keys = ConvertedKeys(Nemotron());
  EXPECT_EQ(keys.Uint("nemotron_h_moe.expert_feed_forward_length"), 2u);
  EXPECT_EQ(keys.Uint("nemotron_h_moe.expert_used_count"), 1u);
}

TEST(NemotronH, WritesTheWidthsAndUsedExpertsOfAPuzzleLayerByLayer) {
  const GgufMetadata keys = ConvertedKeys(Puzzle());
  const auto numbers = [&](const char* key) {
    return keys.Find(Cat("nemotron_h_moe.", key))->AsUints();
  };
  EXPECT_THAT(numbers("feed_forward_length"), Optional(ElementsAre(0, 2, 0, 5)));
  EXPECT_THAT(numbers("expert_feed_forward_length"), Optional(ElementsAre(0, 2, 0, 5)));
  EXPECT_THAT(numbers("expert_used_count"), Optional(ElementsAre(0, 1, 0, 2)));
}

TEST(NemotronH, PermutesTheQueriesOfAPuzzleLikeThoseOfLlama) {
  ConvertSample puzzle = Puzzle(), plain = Nemotron();
  const std::string source = "backbone.layers.2.mixer.q_proj.weight";
  EXPECT_EQ(plain.Values(Converted(plain), "blk.2.attn_q.weight"), plain.Values(source));
  // Two heads of two values: each half is one row, so nothing moves; with one head rows do.
  puzzle.config["num_attention_heads"] = 1;
  puzzle.config["head_dim"] = 4;
  puzzle.Reshape("backbone.layers.2.mixer.k_proj.weight", {4, 4});
  puzzle.Reshape("backbone.layers.2.mixer.v_proj.weight", {4, 4});
  const std::vector<float> before = puzzle.Values(source);
  const std::vector<float> after = puzzle.Values(Converted(puzzle), "blk.2.attn_q.weight");
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(after[4], before[8]) << "row 1 is row 2 of the source";
  EXPECT_EQ(after[8], before[4]);
}

TEST(NemotronH, RefusesAPuzzleBlockOfAnotherKind) {
  ConvertSample sample = Puzzle();
  sample.config["block_configs"][0]["block_type"] = "mlp";
  EXPECT_THAT(ConversionError(sample).message, HasSubstr("block_configs.block_type[0]"));
}

}  // namespace
}  // namespace moepack
