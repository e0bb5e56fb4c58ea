#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/gguf_writer.h"
#include "libshard/format/gguf.h"

namespace moepack {
namespace {

using testing::Optional;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TensorEntry Entry(const std::string& name, const char* format, std::vector<uint64_t> shape) {
  TensorEntry entry;
  entry.name = name;
  entry.format = quant::FindFormat(format);
  entry.dtype = entry.format->name;
  entry.shape = std::move(shape);
  entry.bytes = *entry.format->BytesFor(entry.Elements());
  return entry;
}

TEST(GgufWrite, WritesTheBytesOfAnIndependentWriter) {
  const fixtures::GgufFile raw = fixtures::MiniGguf("qwen3moe", 2, 4);
  const std::string file = fixtures::GgufBytes(raw);
  const auto header = ParseGguf("f.gguf", BytesOf(file), file.size());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(BuildGgufHeader(header->metadata, header->tensors, 32),
            file.substr(0, header->data_start));
}

TEST(GgufWrite, IsReadBackWithEveryAlignment) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("llama"));
  metadata.Set("list", GgufValue::Strings({"a", "bc"}));
  const std::vector<TensorEntry> tensors = {Entry("a", "q8_0", {3, 2, 64}), Entry("b", "f32", {5}),
                                            Entry("c", "q4_K", {256})};
  for (const uint64_t alignment : {16u, 32u, 4096u}) {
    const std::string prefix = BuildGgufHeader(metadata, tensors, alignment);
    EXPECT_EQ(prefix.size() % alignment, 0u);
    const auto header = ParseGguf("f.gguf", BytesOf(prefix), prefix.size() + 100'000);
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->alignment, alignment);
    EXPECT_EQ(header->data_start, prefix.size());
    ASSERT_EQ(header->tensors.size(), 3u);
    EXPECT_EQ(header->tensors[0].shape, tensors[0].shape);
    EXPECT_EQ(header->tensors[2].dtype, "q4_K");
    EXPECT_EQ(*header->metadata.Find("list"), *metadata.Find("list"));
    EXPECT_EQ(header->metadata.Find(kGgufAlignmentKey) != nullptr, alignment != 32);
  }
}

TEST(GgufWrite, DefaultAlignmentRemovesTheKey) {
  GgufMetadata metadata;
  metadata.Set(kGgufAlignmentKey, GgufValue::U32(4096));
  const std::string prefix = BuildGgufHeader(metadata, {}, 32);
  const auto header = ParseGguf("f.gguf", BytesOf(prefix), prefix.size());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_TRUE(header->metadata.entries().empty());
  EXPECT_EQ(header->data_start % 32, 0u);
  EXPECT_LT(header->data_start, 4096u);
}

OutputFile TwoVectors() {
  OutputFile file;
  for (const TensorEntry& entry : {Entry("a", "f32", {1025}), Entry("b", "f32", {3})}) {
    file.tensors.emplace_back();
    file.tensors.back().entry = entry;
  }
  return file;
}

TEST(GgufWrite, LaysTensorsOutAt32WithoutTheKeyAndPadsTheEnd) {
  OutputFile file = TwoVectors();
  GgufMetadata metadata;
  metadata.Set("split.no", GgufValue::U16(1));
  metadata.Set(kGgufAlignmentKey, GgufValue::U32(4096));  // of a source, say
  LayOutGguf(file, metadata);
  const uint64_t data = file.prefix.size();
  EXPECT_EQ(data % 32, 0u);
  EXPECT_EQ(file.tensors[0].entry.offset, data);
  EXPECT_EQ(file.tensors[1].entry.offset, data + 4128);
  EXPECT_EQ(file.size, data + 4128 + 32);
  const auto header = ParseGguf("f.gguf", BytesOf(file.prefix), file.size);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors[1].offset, file.tensors[1].entry.offset);
  EXPECT_EQ(header->metadata.Find(kGgufAlignmentKey), nullptr);
}

TEST(GgufWrite, LaysTensorsOutOnPagesAndPadsTheEndOnRequest) {
  OutputFile file = TwoVectors();
  GgufMetadata metadata;
  metadata.Set("split.no", GgufValue::U16(1));
  LayOutGguf(file, metadata, 4096);
  EXPECT_EQ(file.prefix.size(), 4096u);
  EXPECT_EQ(file.tensors[0].entry.offset, 4096u);
  EXPECT_EQ(file.tensors[1].entry.offset, 4096u + 8192u);
  EXPECT_EQ(file.size, 4096u + 8192u + 4096u);
  const auto header = ParseGguf("f.gguf", BytesOf(file.prefix), file.size);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors[1].offset, file.tensors[1].entry.offset);
  EXPECT_THAT(header->metadata.Uint("general.alignment"), Optional(4096u));
}

}  // namespace
}  // namespace moepack
