#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/converted.h"
#include "tests/libshard/families/layered_sample.h"

namespace moepack {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Four experts, and two chunk experts as wide as a head.
ConvertSample Grove() {
  ConvertSample sample = LayeredSample("GroveMoeForCausalLM", "grove_moe", "num_experts");
  sample.config.erase("first_k_dense_replace");
  sample.config["num_experts"] = 4;
  sample.config["num_hidden_layers"] = 1;
  AddModel(sample);
  const std::string at = "model.layers.0.", mlp = at + "mlp.";
  AddLayerNorms(sample, at);
  AddGroupedAttention(sample, at);
  for (const char* part : {"q", "k"}) sample.Add(at + "self_attn." + part + "_norm.weight", {2});
  sample.Add(mlp + "gate.weight", {4, 4});
  sample.Add(mlp + "expert_bias", {4});
  for (const char* module : {"experts.0.", "experts.1.", "experts.2.", "experts.3.",
                             "chunk_experts.0.", "chunk_experts.1."})
    AddDenseMlp(sample, mlp + module);
  return sample;
}

const GgufTensor* TensorOf(const GgufModel& model, const std::string& name) {
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(GroveMoe, StacksChunkExpertsInTheTrunk) {
  const GgufModel model = Converted(Grove());
  const GgufTensor* const down = TensorOf(model, "blk.0.ffn_down_chexps.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->shape, (std::vector<uint64_t>{2, 4, 2}));
  EXPECT_EQ(down->part, Part::kTrunk);
  EXPECT_EQ(down->expert_count, 0u);
  EXPECT_EQ(down->source_tensor, "model.layers.0.mlp.chunk_experts.*.down_proj.weight");
  std::vector<std::string> names;
  for (const GgufTensor& tensor : model.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, Not(Contains(HasSubstr("bias"))));
}

TEST(GroveMoe, WritesWhatNoConfigSays) {
  const GgufMetadata keys = ConvertedKeys(Grove());
  EXPECT_EQ(keys.Uint("grovemoe.experts_per_group"), 2u);
  EXPECT_EQ(keys.Uint("grovemoe.expert_chunk_feed_forward_length"), 2u);
  EXPECT_EQ(*keys.Find("grovemoe.expert_group_scale"), GgufValue::F32(0.05f));
}

TEST(GroveMoe, RefusesChunkExpertsThatDoNotFit) {
  ConvertSample fewer = Grove();
  fewer.Remove("chunk_experts.1");
  const Error error = ConversionError(fewer);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("expected chunk experts for 2 of the 4 experts each, of "
                                       "width 2 (head_dim), found 1 of width 2"));
  ConvertSample gap = Grove();
  gap.Remove("chunk_experts.0");
  EXPECT_EQ(ConversionError(gap).code, Code::kCorrupt);
  EXPECT_THAT(ConversionError(gap).message,
              HasSubstr("expected number 0 of such tensors, found 1"));
}

}  // namespace
}  // namespace moepack
