#include "libshard/format/gguf_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(GgufValue, HoldsTheBytesOfTheFormat) {
  EXPECT_EQ(GgufValue::U16(0x1234).bytes, "\x34\x12");
  EXPECT_EQ(GgufValue::U32(1).bytes, std::string("\1\0\0\0", 4));
  EXPECT_EQ(GgufValue::I32(-1).bytes, "\xff\xff\xff\xff");
  EXPECT_EQ(GgufValue::F32(1.0f).bytes, std::string("\0\0\x80\x3f", 4));
  EXPECT_EQ(GgufValue::Bool(true).bytes, "\1");
  EXPECT_EQ(GgufValue::String("ab").bytes, std::string("\2\0\0\0\0\0\0\0ab", 10));
  EXPECT_EQ(GgufValue::Strings({"a"}).bytes,
            std::string("\x08\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a", 21));
  EXPECT_EQ(GgufValue::I32s(std::vector<int32_t>{-2}).bytes,
            std::string("\5\0\0\0\1\0\0\0\0\0\0\0\xfe\xff\xff\xff", 16));
  EXPECT_EQ(GgufValue::Bools({true, false}).bytes, std::string("\7\0\0\0\2\0\0\0\0\0\0\0\1\0", 14));
}

TEST(GgufValue, ReturnsTheStoredValues) {
  EXPECT_THAT(GgufValue::U16(65535).AsUint(), Optional(65535u));
  EXPECT_THAT(GgufValue::I32(7).AsUint(), Optional(7u));
  EXPECT_THAT(GgufValue::F32(0.1f).AsFloat(), Optional(double{0.1f}));
  EXPECT_THAT(GgufValue::Bool(false).AsBool(), Optional(false));
  EXPECT_THAT(GgufValue::String("").AsString(), Optional(std::string_view("")));
  EXPECT_THAT(GgufValue::String("text").AsString(), Optional(std::string_view("text")));
  EXPECT_THAT(GgufValue::Strings({"a", "", "long one"}).AsStrings(),
              Optional(ElementsAre("a", "", "long one")));
  EXPECT_THAT(GgufValue::U32s(std::vector<uint32_t>{3, 4}).AsUints(), Optional(ElementsAre(3, 4)));
  EXPECT_EQ(GgufValue::F32s(std::vector<float>{1, 2, 3}).ElementType(), GgufType::kF32);
}

TEST(GgufValue, ReadsEveryIntegerTypeAndSmallerFloats) {
  EXPECT_THAT((GgufValue{GgufType::kU8, "\xff"}).AsUint(), Optional(255u));
  EXPECT_THAT((GgufValue{GgufType::kI8, "\x7f"}).AsUint(), Optional(127u));
  EXPECT_THAT((GgufValue{GgufType::kI16, std::string("\0\1", 2)}).AsUint(), Optional(256u));
  EXPECT_THAT((GgufValue{GgufType::kU64, std::string(8, '\xff')}).AsUint(),
              Optional(std::numeric_limits<uint64_t>::max()));
  EXPECT_THAT((GgufValue{GgufType::kI64, std::string("\2\0\0\0\0\0\0\0", 8)}).AsUint(),
              Optional(2u));
  EXPECT_THAT((GgufValue{GgufType::kF64, std::string("\0\0\0\0\0\0\xf0\x3f", 8)}).AsFloat(),
              Optional(1.0));
}

TEST(GgufValue, DoesNotConvertToOtherTypes) {
  EXPECT_EQ(GgufValue::I32(-1).AsUint(), std::nullopt);
  EXPECT_EQ((GgufValue{GgufType::kI64, std::string(8, '\xff')}).AsUint(), std::nullopt);
  EXPECT_EQ(GgufValue::F32(1).AsUint(), std::nullopt);
  EXPECT_EQ(GgufValue::Bool(true).AsUint(), std::nullopt);
  EXPECT_EQ(GgufValue::U32(1).AsFloat(), std::nullopt);
  EXPECT_EQ(GgufValue::U32(1).AsBool(), std::nullopt);
  EXPECT_EQ(GgufValue::U32(1).AsString(), std::nullopt);
  EXPECT_EQ(GgufValue::Strings({"a"}).AsString(), std::nullopt);
  EXPECT_EQ(GgufValue::String("a").AsStrings(), std::nullopt);
  EXPECT_EQ(GgufValue::Strings({"a"}).AsUints(), std::nullopt);
  EXPECT_EQ(GgufValue::F32s(std::vector<float>{1}).AsUints(), std::nullopt);
  EXPECT_EQ(GgufValue::I32s(std::vector<int32_t>{1, -1}).AsUints(), std::nullopt);
  EXPECT_EQ(GgufValue::U32(1).ElementType(), std::nullopt);
}

TEST(GgufValue, CountsElements) {
  EXPECT_EQ(GgufValue::U32(9).Count(), 1u);
  EXPECT_EQ(GgufValue::Strings({}).Count(), 0u);
  EXPECT_EQ(GgufValue::Strings({"a", "b"}).Count(), 2u);
  EXPECT_THAT(GgufValue::U32(9).AsUints(), Optional(ElementsAre(9)));
}

TEST(GgufType, HasANameAndASize) {
  EXPECT_EQ(GgufTypeName(GgufType::kU8), "u8");
  EXPECT_EQ(GgufTypeName(GgufType::kArray), "array");
  EXPECT_EQ(GgufTypeName(GgufType::kF64), "f64");
  EXPECT_EQ(GgufTypeName(static_cast<GgufType>(13)), "unknown");
  EXPECT_EQ(GgufTypeBytes(GgufType::kI16), 2u);
  EXPECT_EQ(GgufTypeBytes(GgufType::kString), 0u);
  EXPECT_EQ(GgufTypeBytes(static_cast<GgufType>(99)), 0u);
}

TEST(GgufMetadata, KeepsTheOrderOfInsertionAndReplacesInPlace) {
  GgufMetadata metadata;
  metadata.Set("b", GgufValue::U32(1));
  metadata.Set("a", GgufValue::U32(2));
  metadata.Set("b", GgufValue::String("new"));
  ASSERT_EQ(metadata.entries().size(), 2u);
  EXPECT_EQ(metadata.entries()[0].key, "b");
  EXPECT_THAT(metadata.String("b"), Optional(std::string_view("new")));
  metadata.Remove("b");
  metadata.Remove("never there");
  EXPECT_EQ(metadata.Find("b"), nullptr);
  EXPECT_THAT(metadata.Uint("a"), Optional(2u));
}

TEST(GgufMetadata, KnowsItsArchitecture) {
  GgufMetadata metadata;
  EXPECT_EQ(metadata.Architecture(), "");
  metadata.Set("general.architecture", GgufValue::U32(1));
  EXPECT_EQ(metadata.Architecture(), "");
  metadata.Set("general.architecture", GgufValue::String("qwen3moe"));
  EXPECT_EQ(metadata.Architecture(), "qwen3moe");
}

}  // namespace
}  // namespace moepack
