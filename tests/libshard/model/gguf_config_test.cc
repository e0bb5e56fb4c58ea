// Missing keys, keys of another type and absurd keys are fixtures/bad/*/gguf_*.
#include "libshard/model/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GgufMetadata Minimal(const std::string& architecture) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(architecture));
  metadata.Set(architecture + ".block_count", GgufValue::U32(6));
  metadata.Set(architecture + ".expert_count", GgufValue::U32(8));
  metadata.Set(architecture + ".expert_used_count", GgufValue::U32(2));
  return metadata;
}

struct Read {
  explicit Read(const GgufMetadata& metadata) {
    Result<ModelConfig> read = ReadGgufConfig("f.gguf", metadata, warnings);
    if (read) {
      config = *read;
    } else {
      error = read.error().message;
    }
  }
  ModelConfig config;
  std::vector<std::string> warnings;
  std::string error;
};

TEST(GgufConfig, ReadsTheSizesOfAModel) {
  GgufMetadata metadata = Minimal("glm4moe");
  metadata.Set("glm4moe.nextn_predict_layers", GgufValue::U32(1));
  metadata.Set("glm4moe.embedding_length", GgufValue::U32(64));
  metadata.Set("glm4moe.feed_forward_length", GgufValue::U32(128));
  metadata.Set("glm4moe.expert_feed_forward_length", GgufValue::U32(32));
  metadata.Set("glm4moe.expert_shared_count", GgufValue::U32(1));
  metadata.Set("glm4moe.expert_group_count", GgufValue::U32(4));
  metadata.Set("glm4moe.expert_group_used_count", GgufValue::U32(2));
  metadata.Set("glm4moe.vocab_size", GgufValue::U32(9));
  metadata.Set("tokenizer.ggml.tokens", GgufValue::Strings({"a", "b", "c"}));
  const Read read(metadata);
  ASSERT_EQ(read.error, "");
  EXPECT_EQ(read.config.architecture, "glm4moe");
  EXPECT_EQ(read.config.layers, 5u);
  EXPECT_EQ(read.config.mtp_layers, 1u);
  EXPECT_EQ(read.config.expert_count, 8u);
  EXPECT_EQ(read.config.top_k, 2u);
  EXPECT_EQ(read.config.hidden_size, 64u);
  EXPECT_EQ(read.config.expert_intermediate_size, 32u);
  EXPECT_EQ(read.config.shared_experts, 1u);
  EXPECT_EQ(read.config.routing.groups, 4u);
  EXPECT_EQ(read.config.routing.groups_used, 2u);
  EXPECT_EQ(read.config.vocab_size, 3u) << "the number of tokens decides, not the key";
  EXPECT_EQ(read.config.expert_count_key, "glm4moe.expert_count");
  EXPECT_THAT(read.warnings, IsEmpty());
}

TEST(GgufConfig, HasTheRoutingOfTheMetadataAndItsWarnings) {
  EXPECT_EQ(Read(Minimal("olmoe")).config.routing.normalize, false);
  const Read unknown(Minimal("newmoe"));
  EXPECT_EQ(unknown.config.routing.gating, std::nullopt);
  EXPECT_EQ(unknown.config.routing.normalize, std::nullopt);
  EXPECT_THAT(unknown.warnings, ElementsAre(HasSubstr("llama.cpp v0.5.0 has, found \"newmoe\""),
                                            HasSubstr("softmax is assumed")));
}

TEST(GgufConfig, TakesOneTopKPerBlock) {
  GgufMetadata metadata = Minimal("qwen3moe");
  metadata.Set("qwen3moe.expert_used_count",
               GgufValue::U32s(std::vector<uint32_t>{1, 2, 3, 4, 3, 2}));
  EXPECT_EQ(Read(metadata).config.top_k, 4u);
  EXPECT_EQ(Read(metadata).config.top_k_per_layer.size(), 6u);
  metadata.Set("qwen3moe.expert_used_count", GgufValue::U32s(std::vector<uint32_t>{1, 2}));
  EXPECT_THAT(Read(metadata).error, HasSubstr("expected one number per block (6), found 2"));
}

TEST(GgufConfig, DerivesTheWidthAsTheQwenLoadersDo) {
  GgufMetadata qwen = Minimal("qwen2moe"), mixtral = Minimal("llama");
  qwen.Set("qwen2moe.feed_forward_length", GgufValue::U32(100));
  mixtral.Set("llama.feed_forward_length", GgufValue::U32(100));
  EXPECT_EQ(Read(qwen).config.expert_intermediate_size, 50u);
  EXPECT_EQ(Read(mixtral).config.expert_intermediate_size, 100u);
}

TEST(GgufConfig, RefusesKeysOfAnotherType) {
  const std::pair<const char*, GgufValue> wrong[] = {
      {"deepseek2.expert_used_count", GgufValue::F32(1)},
      {"deepseek2.nextn_predict_layers", GgufValue::U32(6)},
      {"deepseek2.embedding_length", GgufValue::String("64")}};
  for (const auto& [key, value] : wrong) {
    GgufMetadata metadata = Minimal("deepseek2");
    metadata.Set(key, value);
    EXPECT_THAT(Read(metadata).error, HasSubstr(Cat("f.gguf: key \"", key, "\": expected")));
  }
}

}  // namespace
}  // namespace moepack
