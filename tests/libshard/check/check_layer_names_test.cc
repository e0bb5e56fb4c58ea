#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/check/layer_names.h"
#include "tests/libshard/format/bent_checkpoint.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LayerNames, AModuleNameHasNeitherLeafNorPath) {
  EXPECT_EQ(ModuleName("model.layers.1.self_attn.q_proj.weight", "weight"), "q_proj");
  EXPECT_EQ(ModuleName("layers.1.mlp.experts.gate_up_proj_blocks", "blocks"), "gate_up_proj");
  EXPECT_EQ(ModuleName("layers.1.mlp.experts.gate_up_proj", ""), "gate_up_proj");
  EXPECT_EQ(ModuleName("weight", "weight"), "weight");
}

TEST(LayerNames, ReportsATensorThatOnlyOneLayerLacks) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.Remove("layers.1.self_attn.k_proj");
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: tensor \"model.layers.1.self_attn.k_proj.weight\": expected "
                          "one as layers 0,2 have, of the same kind, found none"));
}

TEST(LayerNames, ReportsATensorThatOnlyOneLayerHas) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.Add("model.layers.2.self_attn.q_proj.bias", {64});
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("extra: tensor \"model.layers.2.self_attn.q_proj.bias\": expected none "
                          "as in layers 0-1, of the same kind, found one"));
}

TEST(LayerNames, ReportsATensorThatSeveralLayersLack) {
  BentCheckpoint checkpoint("qwen3-moe", {.layers = 10});
  checkpoint.Remove("layers.4.self_attn.o_proj");
  checkpoint.Remove("layers.7.self_attn.o_proj");
  const std::string as = ": expected one as layers 0-3,5-6,8-9 have, of the same kind, found none";
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: tensor \"model.layers.4.self_attn.o_proj.weight\"" + as,
                          "missing: tensor \"model.layers.7.self_attn.o_proj.weight\"" + as));
}

TEST(LayerNames, ComparesOnlyLayersOfTheSameKind) {
  BentCheckpoint checkpoint("lfm2-moe", {.layers = 7});
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
  checkpoint.Remove("layers.3.self_attn.k_proj");
  EXPECT_THAT(checkpoint.Findings(),
              ElementsAre("missing: tensor \"model.layers.3.self_attn.k_proj.weight\": expected "
                          "one as layers 1,5 have, of the same kind, found none"));
}

TEST(LayerNames, TheConfigDistinguishesKindsEvenWhenTensorNamesAreAlike) {
  BentCheckpoint checkpoint("gemma-4", {.layers = 8});
  EXPECT_THAT(checkpoint.Findings(), IsEmpty()) << "every second layer has no value projection";
  checkpoint.Remove("layers.2.self_attn.v_proj");
  EXPECT_EQ(checkpoint.Findings().size(), 1u);
  const char* sliding = "sliding_attention";
  const char* full = "full_attention";
  checkpoint.config["text_config"]["layer_types"] = {sliding, full, full,    full,
                                                     sliding, full, sliding, full};
  EXPECT_THAT(checkpoint.Findings(), IsEmpty());
}

TEST(LayerNames, CompanionsOfQuantizedWeightsMayDiffer) {
  BentCheckpoint checkpoint("minimax-m2");
  checkpoint.Remove("layers.1.self_attn.o_proj.weight_scale_inv");
  EXPECT_THAT(checkpoint.Findings(), IsEmpty()) << "a layer may be left unquantized";
}

TEST(LayerNames, BlocksForMultiTokenPredictionAreNamedByTheirOwnNumbers) {
  BentCheckpoint checkpoint("qwen3.5-moe");
  checkpoint.config["text_config"]["mtp_num_hidden_layers"] = 2;
  checkpoint.Add("mtp.layers.1.mlp.gate.weight", {6, 64});
  checkpoint.Add("mtp.layers.1.mlp.experts.gate_up_proj", {6, 128, 64});
  checkpoint.Add("mtp.layers.1.mlp.experts.down_proj", {6, 64, 64});
  EXPECT_THAT(checkpoint.Findings(),
              testing::Contains("missing: tensor \"mtp.layers.1.input_layernorm.weight\": "
                                "expected one as layer 4 has, of the same kind, found none"));
}

}  // namespace
}  // namespace moepack
