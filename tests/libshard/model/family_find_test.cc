#include "libshard/model/family_find.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/config.h"

namespace moepack {
namespace {

Result<const Family*> Find(std::string_view text) {
  const Result<ModelConfig> config = ParseModelConfig("config.json", text);
  if (!config) return config.error();
  return FindFamily("config.json", *config);
}

TEST(FindFamily, GoesByArchitectureThenByModelType) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("architectures": ["Qwen3MoeForCausalLM"])", "qwen3-moe"},
      {R"("architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2")", "deepseek-v3"},
      {R"("architectures": ["DeepseekOCRForCausalLM"],
          "language_config": {"architectures": ["DeepseekV2ForCausalLM"]})",
       "deepseek-ocr"},
      {R"("architectures": ["Wrapper"],
          "llm_config": {"architectures": ["BailingMoeForCausalLM"]})",
       "bailing-moe"},
      {R"("architectures": ["Mistral3ForConditionalGeneration"],
          "text_config": {"model_type": "mistral4"})",
       "mistral4"},
      {R"("model_type": "olmoe")", "olmoe"}};
  for (const auto& [fields, name] : cases) {
    const Result<const Family*> family = Find(Cat("{\"num_experts\": 8, ", fields, "}"));
    ASSERT_TRUE(family) << family.error().message;
    EXPECT_EQ((*family)->name, name);
  }
}

TEST(FindFamily, SaysWhyThereIsNothingToSplit) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"architectures": ["LlamaForCausalLM"]})", "Llama before version 4 is a dense model"},
      {R"({"architectures": ["MistralForCausalLM"]})", "Mistral is a dense model"},
      {R"({"architectures": ["Qwen3ForCausalLM"]})", "this Qwen is a dense model"},
      {R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"})",
       "Qwen3.5 without experts is a dense model"},
      {R"({"architectures": ["Gemma4ForConditionalGeneration"], "num_experts": null})",
       "this Gemma is a dense model"},
      {R"({"architectures": ["RWKV6ForCausalLM"]})", "RWKV is a recurrent model"},
      {R"({"architectures": ["FalconMambaForCausalLM"]})", "Mamba is a state-space model"},
      {R"({"architectures": ["GPT2LMHeadModel"]})", "names no routed experts"},
      {R"({})", "names no routed experts"}};
  for (const auto& [text, reason] : cases) {
    const Result<const Family*> family = Find(text);
    ASSERT_FALSE(family) << text;
    EXPECT_EQ(family.error().code, Code::kUnsupported);
    EXPECT_NE(family.error().message.find("nothing to split"), std::string::npos);
    EXPECT_NE(family.error().message.find(reason), std::string::npos) << family.error().message;
  }
}

TEST(FindFamily, PointsToFamilyFilesForAnUnknownArchitecture) {
  const Result<const Family*> family =
      Find(R"({"architectures": ["NewMoeForCausalLM"], "num_experts": 64})");
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, Code::kUnsupported);
  EXPECT_EQ(family.error().message,
            "config.json: expected an architecture of a known family, found "
            "\"NewMoeForCausalLM\" with 64 experts (num_experts)");
  EXPECT_NE(family.error().hint.find("--family"), std::string::npos);
}

TEST(FindFamily, SuggestsTheClosestNameForOneThatIsNearlyKnown) {
  const Result<const Family*> family =
      Find(R"({"architectures": ["Qwen4MoeForCausalLM"], "num_experts": 64})");
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().message,
            "config.json: expected an architecture of a known family, found "
            "\"Qwen4MoeForCausalLM\" with 64 experts (num_experts); the closest known name is "
            "\"Qwen2MoeForCausalLM\" of family qwen2-moe");
}

TEST(FindFamilyByNames, TakesTheFamilyThatKnowsEveryName) {
  const std::vector<std::string_view> names = {
      "model.embed_tokens.weight", "model.layers.0.block_sparse_moe.gate.weight",
      "model.layers.0.block_sparse_moe.experts.0.w1.weight"};
  const Result<const Family*> family = FindFamilyByNames("x", names);
  ASSERT_TRUE(family) << family.error().message;
  EXPECT_EQ((*family)->name, "mixtral");
}

TEST(FindFamilyByNames, NamesTheTensorThatNoFamilyKnows) {
  const std::vector<std::string_view> names = {
      "model.embed_tokens.weight", "model.layers.0.block_sparse_moe.experts.0.w1.weight",
      "model.layers.0.block_sparse_moe.magic"};
  const Result<const Family*> family = FindFamilyByNames("x.safetensors", names);
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, Code::kUnsupported);
  EXPECT_EQ(family.error().message,
            "x.safetensors: expected the tensor names of a known family, found "
            "\"model.layers.0.block_sparse_moe.magic\", which even the closest, mixtral, has not");
  EXPECT_NE(family.error().hint.find("--family"), std::string::npos);
}

TEST(FindFamilyByNames, RefusesNamesWithoutAnyExpert) {
  const std::vector<std::string_view> names = {"model.embed_tokens.weight",
                                               "model.layers.0.mlp.up_proj.weight"};
  const Result<const Family*> family = FindFamilyByNames("x", names);
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, Code::kUnsupported);
  EXPECT_EQ(family.error().message,
            "x: nothing to split: no tensor belongs to a routed expert, so this is a dense model");
}

}  // namespace
}  // namespace moepack
