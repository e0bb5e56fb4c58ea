#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

ConvertSample Thinker() {
  ConvertSample sample =
      LayeredSample("SmallThinkerForCausalLM", "smallthinker", "moe_num_primary_experts");
  for (const char* field : {"first_k_dense_replace", "intermediate_size", "moe_intermediate_size",
                            "num_experts_per_tok"})
    sample.config.erase(field);
  sample.config["moe_ffn_hidden_size"] = 2;
  sample.config["moe_num_active_primary_experts"] = 1;
  AddModel(sample);
  for (const std::string at : {"model.layers.0.", "model.layers.1."}) {
    const std::string moe = at + "block_sparse_moe.";
    AddLayerNorms(sample, at);
    AddGroupedAttention(sample, at);
    sample.Add(moe + "primary_router.weight", {2, 4});
    for (const char* expert : {"0", "1"}) {
      sample.Add(moe + "experts." + expert + ".gate.weight", {2, 4});
      sample.Add(moe + "experts." + expert + ".up.weight", {2, 4});
      sample.Add(moe + "experts." + expert + ".down.weight", {4, 2});
    }
  }
  return sample;
}

ConvertSample ThinkerWithWindow() {
  ConvertSample sample = Thinker();
  sample.config["sliding_window_layout"] = {0, 1};
  sample.config["rope_layout"] = {0, 1};
  sample.config["sliding_window_size"] = 4096;
  return sample;
}

TEST(SmallThinker, WritesHowTheRouterWeighsExperts) {
  const GgufMetadata keys = ConvertedKeys(Thinker());
  EXPECT_EQ(keys.Uint("smallthinker.expert_gating_func"), 2u);
  EXPECT_EQ(keys.Uint("smallthinker.feed_forward_length"), 2u);
  EXPECT_EQ(keys.Uint("smallthinker.expert_feed_forward_length"), 2u);
  ConvertSample softmax = Thinker();
  softmax.config["moe_primary_router_apply_softmax"] = true;
  EXPECT_EQ(ConvertedKeys(softmax).Uint("smallthinker.expert_gating_func"), 1u);
  softmax.config["moe_primary_router_apply_softmax"] = false;
  EXPECT_EQ(ConvertedKeys(softmax).Uint("smallthinker.expert_gating_func"), 2u);
}

TEST(SmallThinker, WritesAWindowOnlyWhereALayerHasOne) {
  EXPECT_EQ(ConvertedKeys(ThinkerWithWindow()).Uint("smallthinker.attention.sliding_window"),
            4096u);
  ConvertSample none = Thinker();
  none.config["sliding_window_layout"] = {0, 0};
  none.config["rope_layout"] = {1, 1};
  none.config["sliding_window_size"] = 4096;
  EXPECT_EQ(ConvertedKeys(none).Find("smallthinker.attention.sliding_window"), nullptr);
}

TEST(SmallThinker, RefusesLayersThatTheRuntimeHasOtherwise) {
  const auto refused = [](const char* field, const Json& value) {
    ConvertSample sample = ThinkerWithWindow();
    sample.config[field] = value;
    const Error error = ConversionError(sample);
    EXPECT_EQ(error.code, Code::kUnsupported) << field;
    return error.message;
  };
  EXPECT_THAT(refused("rope_layout", {1, 1}), HasSubstr("rope_layout[0]: expected 0"));
  EXPECT_THAT(refused("sliding_window_layout", {1, 1}),
              HasSubstr("sliding_window_layout[0]: expected full_attention"));
  EXPECT_THAT(refused("sliding_window_size", 8),
              HasSubstr("sliding_window_size: expected 4096, as the runtime has it, found 8"));
  EXPECT_THAT(refused("hidden_act", "silu"), HasSubstr("expected relu"));
}

}  // namespace
}  // namespace moepack
