#include "libshard/convert/gguf_used_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::HasSubstr;
using testing::Optional;

GgufMetadata UsingTwo(const std::string& architecture) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(architecture));
  metadata.Set(architecture + ".expert_used_count", GgufValue::U32(2));
  return metadata;
}

TEST(UsedExperts, ReplacesASingleCount) {
  GgufMetadata metadata = UsingTwo("olmoe");
  metadata.Set("olmoe.expert_feed_forward_length", GgufValue::U32(32));
  ASSERT_TRUE(SetUsedExperts("f.gguf", 4, metadata));
  EXPECT_THAT(metadata.Uint("olmoe.expert_used_count"), Optional(4u));
  EXPECT_THAT(metadata.Uint("olmoe.expert_feed_forward_length"), Optional(32u));
}

TEST(UsedExperts, LeavesLayersWithoutExpertsAtZero) {
  GgufMetadata metadata = UsingTwo("deepseek2");
  metadata.Set("deepseek2.expert_used_count", GgufValue::U32s(std::vector<uint32_t>{0, 2, 2}));
  metadata.Set("deepseek2.expert_feed_forward_length", GgufValue::U32(32));
  ASSERT_TRUE(SetUsedExperts("f.gguf", 3, metadata));
  EXPECT_EQ(metadata.Find("deepseek2.expert_used_count")->AsUints(),
            (std::vector<uint64_t>{0, 3, 3}));
}

// llama.cpp would divide the width of the dense layers by the new number.
TEST(UsedExperts, WritesTheWidthThatLlamaCppWouldDeriveFromTheCount) {
  GgufMetadata metadata = UsingTwo("qwen2moe");
  metadata.Set("qwen2moe.feed_forward_length", GgufValue::U32(64));
  ASSERT_TRUE(SetUsedExperts("f.gguf", 4, metadata));
  EXPECT_THAT(metadata.Uint("qwen2moe.expert_feed_forward_length"), Optional(32u));
  GgufMetadata odd = UsingTwo("qwen2moe");
  odd.Set("qwen2moe.feed_forward_length", GgufValue::U32(63));
  const Status refused = SetUsedExperts("f.gguf", 4, odd);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr("f.gguf: key \"qwen2moe.expert_feed_forward_length\": expected the width"));
}

TEST(UsedExperts, NamesAMissingCount) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("olmoe"));
  const Status refused = SetUsedExperts("f.gguf", 4, metadata);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().message,
              HasSubstr("key \"olmoe.expert_used_count\": expected a number or one per layer, "
                        "found none"));
}

}  // namespace
}  // namespace moepack
