// Rules shared by Qwen3-Next and Qwen3.5, tested with Qwen3-Next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/qwen_hybrid_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kLinear = "model.layers.0.linear_attn.";

QwenHybridSample HybridRowsSample() {
  QwenHybridSample sample("Qwen3NextForCausalLM", "qwen3_next");
  sample.Add(kLinear + "in_proj_qkvz.weight", {24, 4});
  sample.Add(kLinear + "in_proj_ba.weight", {8, 4});
  sample.config["layer_types"] = {"linear_attention", "full_attention"};
  return sample;
}

const GgufValue* FindHybridTensor(const Result<GgufModel>& model, const char* key) {
  return model->metadata.Find(Cat("qwen3next.", key));
}

size_t TensorsWith(const GgufModel& model, const std::string& part) {
  return static_cast<size_t>(
      std::count_if(model.tensors.begin(), model.tensors.end(),
                    [&](const auto& t) { return t.name.find(part) != std::string::npos; }));
}

TEST(QwenHybridRows, KeepTheBlockForMultiTokenPredictionAsALayer) {
  QwenHybridSample sample = HybridRowsSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->warnings, IsEmpty());
  EXPECT_EQ(*FindHybridTensor(model, "block_count"), GgufValue::U32(3));
  EXPECT_EQ(*FindHybridTensor(model, "nextn_predict_layers"), GgufValue::U32(1));
  EXPECT_EQ(*FindHybridTensor(model, "attention.recurrent_layers"),
            GgufValue::Bools({true, false, false}));
  EXPECT_EQ(sample.Values(*model, "blk.2.nextn.eh_proj.weight"), sample.Values("mtp.fc.weight"));
  EXPECT_EQ(sample.Values(*model, "blk.2.attn_q.weight"),
            sample.Values("mtp.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(TensorsWith(*model, "blk.2."), 20u);
}

TEST(QwenHybridRows, DropTheWholeBlockWithoutMtp) {
  QwenHybridSample sample = HybridRowsSample();
  const auto model = sample.Convert({.pre = {}, .mtp = false});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->warnings, IsEmpty());
  EXPECT_EQ(*FindHybridTensor(model, "block_count"), GgufValue::U32(2));
  EXPECT_EQ(FindHybridTensor(model, "nextn_predict_layers"), nullptr);
  EXPECT_EQ(*FindHybridTensor(model, "attention.recurrent_layers"),
            GgufValue::Bools({true, false}));
  EXPECT_EQ(TensorsWith(*model, "nextn"), 0u);
  EXPECT_EQ(TensorsWith(*model, "blk.2."), 0u);
}

TEST(QwenHybridRows, FollowTheTensorsWhereTheConfigAnnouncesAMissingBlock) {
  QwenHybridSample sample = HybridRowsSample();
  sample.Remove("mtp.");
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*FindHybridTensor(model, "block_count"), GgufValue::U32(2));
  EXPECT_EQ(FindHybridTensor(model, "nextn_predict_layers"), nullptr);
  EXPECT_THAT(model->faults, ElementsAre(HasSubstr("for multi-token prediction")));
}

TEST(QwenHybridRows, NameAMissingTensorOfTheMtpBlock) {
  QwenHybridSample sample = HybridRowsSample();
  sample.Remove("mtp.pre_fc_norm_hidden");
  EXPECT_THAT(sample.Convert().error().message, HasSubstr("blk.2.nextn.hnorm.weight: expected"));
  sample = HybridRowsSample();
  sample.Remove("mtp.layers.0.self_attn.v_proj");
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("layer 2: expected full_attention as the config has it, found no "
                        "blk.2.attn_v.weight"));
}

TEST(QwenHybridRows, RefuseAttentionThatContradictsTheConfig) {
  QwenHybridSample sample = HybridRowsSample();
  sample.config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("missing: layer 0: full attention: expected some as the config lists it, "
                        "found none"));
  sample.config.erase("layer_types");
  sample.config["full_attention_interval"] = 3;
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("missing: layer 1: linear attention: expected some as the config lists "
                        "it, found none"));
}

TEST(QwenHybridRows, RefuseALayerWithBothKinds) {
  QwenHybridSample sample = HybridRowsSample();
  sample.AddFullAttention("model.layers.0.");
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("layer 0: expected linear_attention as the config has it, found "
                        "blk.0.attn_q.weight"));
}

TEST(QwenHybridRows, NameAMissingTensorOfLinearAttention) {
  for (const auto& [source, target] :
       {std::pair("A_log", "ssm_a"), std::pair("in_proj_qkvz", "attn_qkv.weight"),
        std::pair("in_proj_ba", "ssm_alpha.weight"), std::pair("conv1d", "ssm_conv1d.weight")}) {
    QwenHybridSample sample = HybridRowsSample();
    sample.Remove(kLinear + source);
    EXPECT_THAT(sample.Convert().error().message, HasSubstr(Cat("found no blk.0.", target)));
  }
}

TEST(QwenHybridRows, RefuseListsOfKindsThatDoNotFit) {
  QwenHybridSample sample = HybridRowsSample();
  sample.config["layer_types"] = {"linear_attention"};
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("config: layer_types: expected one entry per layer (2), found 1"));
  sample.config["layer_types"] = {"linear_attention", "sliding_attention"};
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("layer_types[1]: expected linear_attention or full_attention"));
  sample.config.erase("layer_types");
  sample.config["full_attention_interval"] = 0;
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("config: full_attention_interval: expected at least 1, found 0"));
}

TEST(QwenHybridRows, RefuseValueHeadsOfAnotherSizeThanKeyHeads) {
  QwenHybridSample sample = HybridRowsSample();
  sample.config["linear_value_head_dim"] = 4;
  const auto model = sample.Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kCorrupt);
  EXPECT_THAT(model.error().message,
              HasSubstr("\"model.layers.0.linear_attn.norm.weight\": expected [4]"));
}

TEST(QwenHybridRows, RefuseValueHeadsThatDoNotDivideAmongKeyHeads) {
  QwenHybridSample sample = HybridRowsSample();
  sample.config["linear_num_value_heads"] = 5;
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("\"model.layers.0.linear_attn.A_log\": expected [5]"));
}

TEST(QwenHybridRows, TakeTheRotaryPartOfTheConfigClassOrOfTheRopeParameters) {
  QwenHybridSample sample = HybridRowsSample();
  EXPECT_EQ(*FindHybridTensor(sample.Convert(), "rope.dimension_count"), GgufValue::U32(1));
  sample.config["rope_parameters"] = {{"partial_rotary_factor", 0.5}};
  EXPECT_EQ(*FindHybridTensor(sample.Convert(), "rope.dimension_count"), GgufValue::U32(2));
  sample.config["rope_parameters"] = {{"partial_rotary_factor", 2}};
  EXPECT_THAT(sample.Convert().error().message,
              HasSubstr("partial_rotary_factor: expected a number over 0 and up to 1"));
}

// As pruned models often are: the layers have two experts, the block for multi-token prediction
// kept three.
QwenHybridSample PrunedSample() {
  QwenHybridSample sample = HybridRowsSample();
  sample.Reshape("mtp.layers.0.mlp.gate.weight", {3, 4});
  sample.Reshape("mtp.layers.0.mlp.experts.gate_up_proj", {3, 4, 4});
  sample.Reshape("mtp.layers.0.mlp.experts.down_proj", {3, 4, 2});
  return sample;
}

TEST(QwenHybridRows, NameABlockForMultiTokenPredictionThatWasNotPrunedWithTheLayers) {
  const auto model = PrunedSample().Convert();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message,
              HasSubstr("layer 2, a block for multi-token prediction: expected 2 experts as in the "
                        "layers before it, since a GGUF has one number for all, found 3"));
  EXPECT_THAT(model.error().hint, HasSubstr("--no-mtp leaves the block out"));
}

TEST(QwenHybridRows, ConvertAPrunedModelWithoutItsUnprunedBlock) {
  QwenHybridSample sample = PrunedSample();
  const auto model = sample.Convert({.pre = {}, .mtp = false});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*FindHybridTensor(model, "expert_count"), GgufValue::U32(2));
  const auto opened = sample.Open();
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->max_experts(), 2u);
  EXPECT_EQ(opened->routing().expert_count, 2u);
  EXPECT_EQ(opened->layers().back().expert_count, 3u);
}

}  // namespace
}  // namespace moepack
