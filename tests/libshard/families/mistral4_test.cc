#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/families/layout_sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

TEST(Mistral4, KeepsGateAndUpOfTheExpertsTogether) {
  LayoutSample mistral("mistral-4");
  const GgufModel model = mistral.Converted();
  const GgufTensor* both = FindTensor(model, "blk.0.ffn_gate_up_exps.weight");
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(both->shape, (std::vector<uint64_t>{6, 128, 64}));
  EXPECT_EQ(both->expert_count, 6u);
  EXPECT_EQ(FindTensor(model, "blk.0.ffn_gate_exps.weight"), nullptr);
}

TEST(Mistral4, HasNoKeyForTheTemperatureOfAttention) {
  LayoutSample mistral("mistral-4");
  const GgufModel model = mistral.Converted();
  for (const GgufEntry& entry : model.metadata.entries())
    EXPECT_EQ(entry.key.find("temperature"), std::string::npos) << entry.key;
}

TEST(Mistral4, RefusesRotationOfHalves) {
  LayoutSample mistral("mistral-4");
  mistral.config["text_config"]["rope_interleave"] = false;
  EXPECT_THAT(mistral.Refusal(), HasSubstr("rope_interleave: expected true, found false"));
}

}  // namespace
}  // namespace moepack
