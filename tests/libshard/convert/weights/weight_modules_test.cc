#include "libshard/convert/weights/weight_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;

const WeightModule* Find(const std::vector<WeightModule>& modules, const std::string& name) {
  const auto found = std::find_if(modules.begin(), modules.end(), [&](const WeightModule& module) {
    return module.weight.name() == name;
  });
  return found == modules.end() ? nullptr : &*found;
}

TEST(CollectWeights, GroupsTheTensorsOfOneWeight) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  const std::string at = "model.layers.0.mlp.experts.";
  for (const char* expert : {"0", "1"}) {
    sample.Tensor(at + expert + ".up_proj.weight").name = at + expert + ".up_proj.weight_packed";
    sample.Add(at + expert + ".up_proj.weight_scale", {1});
    sample.Add(at + expert + ".up_proj.input_scale", {1});
  }
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  const auto modules = CollectWeights(*model);
  ASSERT_TRUE(modules) << modules.error().message;
  const WeightModule* up = Find(*modules, at + "1.up_proj");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->weight.main()->name, at + "1.up_proj.weight_packed");
  EXPECT_EQ(model->entry(*up->tensor).name, at + "1.up_proj.weight_packed");
  EXPECT_NE(up->weight.Find("weight_scale"), nullptr);
  EXPECT_THAT(PatternsOf(*model, *up), ElementsAre("layers.{L}.mlp.experts.{E}.up_proj.weight",
                                                   "layers.{L}.mlp.experts.{E}.up_proj"));
  const WeightModule* embedding = Find(*modules, "model.embed_tokens");
  ASSERT_NE(embedding, nullptr);
  EXPECT_THAT(PatternsOf(*model, *embedding), ElementsAre("embed_tokens.weight"));
}

TEST(CollectWeights, KeepsABiasSeparate) {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.Add("model.layers.0.self_attn.v_proj.bias", {4});
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  const auto modules = CollectWeights(*model);
  const WeightModule* bias = Find(*modules, "model.layers.0.self_attn.v_proj.bias");
  ASSERT_NE(bias, nullptr);
  EXPECT_THAT(PatternsOf(*model, *bias), ElementsAre("layers.{L}.self_attn.v_proj.bias"));
  EXPECT_NE(Find(*modules, "model.layers.0.self_attn.v_proj"), nullptr);
}

TEST(CollectWeights, RecognizesLeavesAfterAnUnderscore) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.Remove("experts");
  const std::string at = "model.layers.0.mlp.experts.";
  for (const char* name : {"gate_up_proj", "down_proj"}) {
    sample.Add(at + name + "_blocks", {2, 4, 1, 16});
    sample.Add(at + name + "_scales", {2, 4, 1});
  }
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  const auto modules = CollectWeights(*model);
  ASSERT_TRUE(modules);
  const WeightModule* down = Find(*modules, at + "down_proj");
  ASSERT_NE(down, nullptr);
  EXPECT_THAT(PatternsOf(*model, *down), ElementsAre("layers.{L}.mlp.experts.down_proj"));
  EXPECT_NE(down->weight.Find("scales"), nullptr);
  EXPECT_EQ(down->weight.main()->name, at + "down_proj_blocks");
}

}  // namespace
}  // namespace moepack
