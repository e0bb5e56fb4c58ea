#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// As many key heads as query heads, norms as wide as the hidden size.
ConvertSample OlmoeSample() {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config.update({{"architectures", {"OlmoeForCausalLM"}},
                        {"model_type", "olmoe"},
                        {"norm_topk_prob", false},
                        {"num_key_value_heads", 2},
                        {"intermediate_size", 2},
                        {"clip_qkv", nullptr}});
  for (const char* key : {"head_dim", "moe_intermediate_size", "rms_norm_eps"}) {
    sample.config.erase(key);
  }
  for (const char* name : {"k_proj", "v_proj", "q_norm", "k_norm"}) sample.Remove(name);
  const std::string at = "model.layers.0.self_attn.";
  sample.Add(at + "k_proj.weight", {4, 4});
  sample.Add(at + "v_proj.weight", {4, 4});
  sample.Add(at + "q_norm.weight", {4});
  sample.Add(at + "k_norm.weight", {4});
  return sample;
}

TEST(ConvertOlmoe, KeepsQueriesKeysAndTheirWideNormsAsTheyAre) {
  ConvertSample sample = OlmoeSample();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->architecture(), "olmoe");
  const std::string from = "model.layers.0.self_attn.", to = "blk.0.attn_";
  for (const char* name : {"q", "k"}) {
    EXPECT_EQ(sample.Values(*model, Cat(to, name, ".weight")),
              sample.Values(Cat(from, name, "_proj.weight")));
    EXPECT_EQ(sample.Values(*model, Cat(to, name, "_norm.weight")),
              sample.Values(Cat(from, name, "_norm.weight")));
  }
  EXPECT_EQ(model->tensors.size(), 3u + 12u);
}

TEST(ConvertOlmoe, WritesItsOwnEpsilonWhateverTheConfigSays) {
  ConvertSample sample = OlmoeSample();
  const char* key = "olmoe.attention.layer_norm_rms_epsilon";
  EXPECT_EQ(*sample.Convert()->metadata.Find(key), GgufValue::F32(1e-5f));
  sample.config["rms_norm_eps"] = 1e-6;
  EXPECT_EQ(*sample.Convert()->metadata.Find(key), GgufValue::F32(1e-5f));
}

TEST(ConvertOlmoe, HasAsManyKeyHeadsAsQueryHeadsWhereTheConfigIsSilent) {
  ConvertSample sample = OlmoeSample();
  sample.config.erase("num_key_value_heads");
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->metadata.Uint("olmoe.attention.head_count_kv"), 2u);
  EXPECT_EQ(model->metadata.Uint("olmoe.feed_forward_length"), 2u);
  EXPECT_EQ(model->metadata.Find("olmoe.expert_feed_forward_length"), nullptr);
}

TEST(ConvertOlmoe, UsesItsOwnNameOfThePreTokenizer) {
  EXPECT_EQ(OlmoeSample().Convert()->metadata.String("tokenizer.ggml.pre"), "olmo");
}

TEST(ConvertOlmoe, WritesTheHeadEvenIfItIsTied) {
  ConvertSample sample = OlmoeSample();
  sample.config["tie_word_embeddings"] = true;
  sample.Tensor("lm_head.weight").bytes = sample.Tensor("model.embed_tokens.weight").bytes;
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(sample.Values(*model, "output.weight"), sample.Values("model.embed_tokens.weight"));
}

TEST(ConvertOlmoe, RefusesWhatTheRuntimeDoesNotSupport) {
  struct Case {
    const char* key;
    Json value;
    const char* message;
  };
  const Case cases[] = {{"norm_topk_prob", true, "norm_topk_prob: expected false"},
                        {"clip_qkv", 8.0, "clip_qkv: expected null"},
                        {"num_key_value_heads", 1, "num_key_value_heads: expected 2"},
                        {"head_dim", 4, "expected hidden size / heads (4 / 2)"}};
  for (const Case& test : cases) {
    ConvertSample sample = OlmoeSample();
    sample.config[test.key] = test.value;
    if (test.value == 1) sample.SetHeads(2, 2, 4);
    if (test.value == 4) {
      sample.config["num_key_value_heads"] = 1;
      sample.SetHeads(2, 4, 4);
    }
    const auto model = sample.Convert();
    ASSERT_FALSE(model) << test.key;
    EXPECT_EQ(model.error().code, Code::kUnsupported) << test.key;
    EXPECT_THAT(model.error().message, HasSubstr(test.message));
  }
}

}  // namespace
}  // namespace moepack
