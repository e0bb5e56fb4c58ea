#include "libshard/format/gguf_key_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/bytes.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class T>
GgufValue PlainValue(GgufType type, T value) {
  GgufValue out{.type = type, .bytes = {}};
  AppendLe<T>(out.bytes, value);
  return out;
}

template <class T>
GgufValue ListValue(GgufType element, const std::vector<T>& values) {
  GgufValue out{.type = GgufType::kArray, .bytes = {}};
  AppendLe<uint32_t>(out.bytes, static_cast<uint32_t>(element));
  AppendLe<uint64_t>(out.bytes, values.size());
  for (const T value : values) AppendLe<T>(out.bytes, value);
  return out;
}

// What becomes of a value of the key "m.<name>", and the warnings.
struct CorrectedKey {
  CorrectedKey(const std::string& name, GgufValue value) {
    GgufMetadata metadata;
    metadata.Set("general.architecture", GgufValue::String("m"));
    metadata.Set("m." + name, std::move(value));
    warnings = CorrectGgufTypes("f.gguf", metadata);
    after = *metadata.Find("m." + name);
  }
  GgufValue after;
  std::vector<std::string> warnings;
};

TEST(GgufKeyTypes, CountsOfEveryIntegerTypeBecomeU32) {
  const GgufValue eight = GgufValue::U32(8);
  for (const GgufValue& value :
       {GgufValue::I32(8), GgufValue::U16(8), PlainValue<uint64_t>(GgufType::kU64, 8),
        PlainValue<int64_t>(GgufType::kI64, 8), PlainValue<uint8_t>(GgufType::kU8, 8),
        PlainValue<int8_t>(GgufType::kI8, 8), PlainValue<int16_t>(GgufType::kI16, 8)}) {
    for (const char* name :
         {"expert_used_count", "expert_count", "block_count", "attention.head_count_kv",
          "nextn_predict_layers", "expert_gating_func", "rope.dimension_count"}) {
      const CorrectedKey key(name, value);
      EXPECT_EQ(key.after, eight) << name << " of " << GgufTypeName(value.type);
      EXPECT_THAT(key.warnings, ElementsAre(HasSubstr("expected u32, found ")));
    }
  }
  EXPECT_THAT(CorrectedKey("expert_count", eight).warnings, IsEmpty());
}

TEST(GgufKeyTypes, NumbersBecomeF32AndFlagsBool) {
  EXPECT_EQ(CorrectedKey("rope.freq_base", PlainValue<double>(GgufType::kF64, 1e6)).after,
            GgufValue::F32(1e6F));
  EXPECT_EQ(CorrectedKey("rope.freq_base", GgufValue::U32(10000)).after, GgufValue::F32(10000));
  EXPECT_EQ(CorrectedKey("expert_weights_norm", PlainValue<uint8_t>(GgufType::kU8, 1)).after,
            GgufValue::Bool(true));
  EXPECT_EQ(CorrectedKey("attention.causal", GgufValue::U32(0)).after, GgufValue::Bool(false));
}

TEST(GgufKeyTypes, ConstantsOfHashesKeepAllTheirBits) {
  constexpr uint64_t kOdd = (uint64_t{1} << 53) + 1;  // no double has this value
  const std::vector<uint64_t> constants = {kOdd, 5};
  const GgufValue right = GgufValue::U64s(constants);
  EXPECT_THAT(CorrectedKey("ple.layer_multipliers", right).warnings, IsEmpty());
  const CorrectedKey key("ple.layer_multipliers",
                         ListValue<int64_t>(GgufType::kI64, {static_cast<int64_t>(kOdd), 5}));
  EXPECT_EQ(key.after, right);
  EXPECT_THAT(key.warnings, ElementsAre(HasSubstr("expected u64, found an array of i64")));
}

TEST(GgufKeyTypes, ArraysPerLayerGetElementsThatLlamaCppReads) {
  const std::vector<uint32_t> counts = {8, 0};
  EXPECT_EQ(
      CorrectedKey("attention.head_count_kv", ListValue<uint64_t>(GgufType::kU64, {8, 0})).after,
      GgufValue::U32s(counts));
  EXPECT_EQ(
      CorrectedKey("rope.dimension_sections", ListValue<int64_t>(GgufType::kI64, {-1, 2})).after,
      GgufValue::I32s(std::vector<int32_t>{-1, 2}));
  EXPECT_EQ(CorrectedKey("swiglu_clamp_exp", ListValue<double>(GgufType::kF64, {7, 0.5})).after,
            GgufValue::F32s(std::vector<float>{7, 0.5F}));
  for (const GgufValue& fine :
       {GgufValue::U32s(counts), GgufValue::I32s(std::vector<int32_t>{1, -1}),
        GgufValue::Bools({true, false}), GgufValue::U32s({})}) {
    const CorrectedKey key("attention.recurrent_layers", fine);
    EXPECT_EQ(key.after, fine);
    EXPECT_THAT(key.warnings, IsEmpty());
  }
}

TEST(GgufKeyTypes, AValueThatTheTypeCannotHoldStaysAndIsNamed) {
  for (const GgufValue& value :
       {GgufValue::I32(-1), PlainValue<uint64_t>(GgufType::kU64, uint64_t{1} << 32),
        PlainValue<double>(GgufType::kF64, 1.5)}) {
    const CorrectedKey key("context_length", value);
    EXPECT_EQ(key.after, value);
    EXPECT_THAT(key.warnings, ElementsAre(HasSubstr("cannot hold")));
  }
  EXPECT_EQ(CorrectedKey("attention.causal", GgufValue::U32(2)).after, GgufValue::U32(2));
  EXPECT_EQ(CorrectedKey("logit_scale", PlainValue<double>(GgufType::kF64, 1e300)).warnings.size(),
            1u);
}

TEST(GgufKeyTypes, KeysThatLlamaCppDoesNotReadAreLeftAlone) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("m"));
  metadata.Set("m.own_count", GgufValue::I32(1));
  metadata.Set("other.expert_count", GgufValue::I32(1));
  metadata.Set("general.tags", GgufValue::Strings({}));
  metadata.Set("tokenizer.ggml.bos_token_id", GgufValue::I32(1));
  metadata.Set("general.file_type", GgufValue::I32(1));
  EXPECT_THAT(CorrectGgufTypes("f.gguf", metadata),
              ElementsAre(HasSubstr("f.gguf: key \"tokenizer.ggml.bos_token_id\": expected u32, "
                                    "found i32 (and 1 other key like it), which llama.cpp "
                                    "refuses; build and quantize write the expected type")));
  EXPECT_EQ(metadata.Find("m.own_count")->type, GgufType::kI32);
  EXPECT_EQ(metadata.Find("other.expert_count")->type, GgufType::kI32);
}

TEST(GgufKeyTypes, OnlyArraysPerLayerAreCutToFewerBlocks) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("m"));
  const std::vector<uint32_t> four = {1, 2, 3, 4}, five = {1, 2, 3, 4, 5};
  metadata.Set("m.attention.head_count_kv", GgufValue::U32s(four));
  metadata.Set("m.attention.recurrent_layers", GgufValue::Bools({true, false, true, false}));
  metadata.Set("m.rope.dimension_sections", GgufValue::U32s(four));
  metadata.Set("m.feed_forward_length", GgufValue::U32s(five));
  CutGgufBlocks(4, 3, metadata);
  EXPECT_EQ(*metadata.Find("m.attention.head_count_kv"),
            GgufValue::U32s(std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(*metadata.Find("m.attention.recurrent_layers"), GgufValue::Bools({true, false, true}));
  EXPECT_EQ(metadata.Find("m.rope.dimension_sections")->Count(), 4u);
  EXPECT_EQ(metadata.Find("m.feed_forward_length")->Count(), 5u);
}

}  // namespace
}  // namespace moepack
