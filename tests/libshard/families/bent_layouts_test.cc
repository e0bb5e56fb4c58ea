// What families refuse, and what they make of a config, over generated checkpoints whose config is
// changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/convert/gguf_model.h"
#include "tests/libshard/format/bent_checkpoint.h"

namespace moepack {
namespace {

using testing::HasSubstr;

class BentLayout {
 public:
  explicit BentLayout(const std::string& layout, const fixtures::Options& options = {}) {
    EXPECT_TRUE(fixtures::MakeCheckpoint(layout, dir_.path(), options));
    std::ifstream in(dir_ / "config.json");
    config = Json::parse(in);
  }

  Result<GgufModel> Convert() {
    std::ofstream(dir_ / "config.json") << config.dump();
    SHARD_TRY(MoeModel model, MoeModel::Open(dir_.path()));
    model_.emplace(std::move(model));
    return ToGguf(*model_, {});
  }
  // Of a conversion that fails.
  Error Refusal() {
    const auto model = Convert();
    EXPECT_FALSE(model);
    return model ? Error{} : model.error();
  }

  Json config;

 private:
  fixtures::TempDir dir_;
  std::optional<MoeModel> model_;
};

struct Refused {
  const char* layout;
  const char* field;
  Json value;
  const char* message;
};

TEST(BentLayouts, RefuseWhatTheRuntimeDoesNotCompute) {
  const Refused rows[] = {
      {"laguna", "gating", "none", "gating: expected true, per-head or per-element"},
      {"laguna", "moe_apply_router_weight_on_input", true, "expected false, found true"},
      {"laguna", "moe_router_logit_softcapping", 30.0, "expected 0, found 30"},
      {"laguna",
       "layer_types",
       {"full_attention", "sliding_attention", "full_attention"},
       "as the runtime has it, found none in layer 2"},
      {"laguna", "sliding_window", nullptr, "layer_types: expected full attention in every layer"},
      {"granite-moe-hybrid", "position_embedding_type", "rope", "expected nope"},
      {"granite-moe-hybrid",
       "layer_types",
       {"mamba", "attention", "linear_attention"},
       "expected mamba or full_attention"},
      {"granite-moe-hybrid", "time_step_limit", {0.0, 0.1}, "expected no limit"},
      {"hy3", "qk_norm", false, "qk_norm: expected true, found false"},
      {"hy3", "moe_router_use_sigmoid", false, "expected true, found false"},
      {"hy3", "moe_router_enable_expert_bias", false, "expected true, found false"},
      {"lfm2-moe", "routed_scaling_factor", 2.0, "routed_scaling_factor: expected 1"},
      {"lfm2-moe", "norm_topk_prob", false, "norm_topk_prob: expected true"},
  };
  for (const Refused& row : rows) {
    SCOPED_TRACE(std::string(row.layout) + " " + row.field);
    BentLayout layout(row.layout);
    layout.config[row.field] = row.value;
    const Error error = layout.Refusal();
    EXPECT_THAT(error.message, HasSubstr(row.message));
  }
}

// llama.cpp stops the process that loads such a file.
TEST(BentLayouts, RefuseMambaLayersOfAnotherWidthThanTwiceTheModels) {
  BentCheckpoint checkpoint("granite-moe-hybrid", {.layers = 2});
  checkpoint.config["mamba_n_heads"] = 4;
  const std::string at = "model.layers.0.mamba.";
  for (const char* name : {"A_log", "D", "dt_bias"}) checkpoint.Reshape(at + name, {4});
  checkpoint.Reshape(at + "in_proj.weight", {196, 64});
  checkpoint.Reshape(at + "conv1d.weight", {128, 1, 4});
  checkpoint.Reshape(at + "conv1d.bias", {128});
  checkpoint.Reshape(at + "norm.weight", {64});
  checkpoint.Reshape(at + "out_proj.weight", {64, 64});
  const auto model = MoeModel::Open(checkpoint.Write());
  ASSERT_TRUE(model) << model.error().message;
  const auto converted = ToGguf(*model, {.pre = "", .part = ConvertOptions::Part::kNoTokenizer});
  ASSERT_FALSE(converted);
  EXPECT_EQ(converted.error().code, Code::kUnsupported);
  EXPECT_THAT(converted.error().message,
              HasSubstr("mamba_n_heads times mamba_d_head: expected 128, twice hidden_size, found "
                        "64"));
}

TEST(BentLayouts, RefuseConfigsThatContradictThemselves) {
  const Refused rows[] = {
      {"laguna", "num_attention_heads_per_layer", {4, 4}, "expected one number per layer (3)"},
      {"laguna", "num_attention_heads_per_layer", {4, 3, 4}, "3"},
      {"laguna", "gating", "per-element", "g_proj: expected 64 rows, as gating says, found 4"},
      {"glm-5.2",
       "indexer_types",
       {"shared", "full", "full"},
       "indexer_types[0]: expected full, since no layer comes before it, found shared"},
      {"glm-5.2",
       "indexer_types",
       {"full", "half", "full"},
       "indexer_types[1]: expected full or shared, found half"},
      {"glm-5.2", "index_topk", 0, "index_topk: expected at least 1, found 0"},
      {"lfm2-moe", "conv_L_cache", 1, "conv_L_cache: expected at least 2 tokens"},
      {"lfm2-moe", "layer_types", {"conv", "conv", "conv"}, "layer 1"},
      {"granite-moe-hybrid", "layer_types", {"mamba", "mamba", "mamba"}, "model.layers.1.mamba"},
  };
  for (const Refused& row : rows) {
    SCOPED_TRACE(std::string(row.layout) + " " + row.field);
    BentLayout layout(row.layout);
    layout.config[row.field] = row.value;
    const Error error = layout.Refusal();
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr(row.message));
  }
}

TEST(BentLayouts, LayersOfGlmThatShareAnIndexerHaveNone) {
  BentLayout layout("glm-5.2");
  const auto shared = layout.Convert();
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ(*shared->metadata.Find("glm-dsa.attention.indexer.types"),
            GgufValue::Bools({true, true, false}));
  // Without the list all layers should have one.
  layout.config.erase("indexer_types");
  const Error error = layout.Refusal();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("indexer"));
}

TEST(BentLayouts, LagunaWithoutAWindowHasNoKeysOfOne) {
  BentLayout layout("laguna");
  layout.config["sliding_window"] = nullptr;
  layout.config["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  layout.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  layout.config["eos_token_id"] = {3, 5};
  layout.config["bos_token_id"] = 3;
  const auto model = layout.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->metadata.Find("laguna.attention.sliding_window"), nullptr);
  EXPECT_EQ(model->metadata.Find("laguna.rope.freq_base_swa"), nullptr);
  EXPECT_EQ(model->metadata.Uint("laguna.rope.dimension_count"), 16u);
  EXPECT_EQ(model->metadata.Uint("tokenizer.ggml.eot_token_id"), 5u);
}

}  // namespace
}  // namespace moepack
