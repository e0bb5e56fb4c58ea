// tests/conformance/bad_files_test.cc checks rule by rule what is refused.
#include "libshard/format/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/gguf_writer.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

Result<GgufHeader> ParsedGguf(const std::string& file) {
  return ParseGguf("f.gguf", std::as_bytes(std::span(file.data(), file.size())), file.size());
}

fixtures::GgufRawTensor F32(const std::string& name, const std::vector<uint64_t>& dims,
                            const std::string& bytes) {
  return {.name = name, .dims = dims, .type = fixtures::kGgufTypeF32, .bytes = bytes};
}

std::string ErrorOf(const fixtures::GgufFile& file) {
  const Result<GgufHeader> header = ParsedGguf(fixtures::GgufBytes(file));
  if (header) return "";
  EXPECT_THAT(header.error().message, HasSubstr("f.gguf: "));
  return header.error().message;
}

TEST(Gguf, ReadsWhatAnIndependentWriterWrote) {
  fixtures::GgufFile raw;
  raw.pairs = {fixtures::GgufPairString("general.architecture", "llama"),
               fixtures::GgufPairU32("llama.block_count", 7)};
  raw.tensors = {F32("a", {3, 2}, std::string(24, 'a')), F32("b", {1}, "bbbb")};
  const std::string file = fixtures::GgufBytes(raw);
  const Result<GgufHeader> header = ParsedGguf(file);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->version, 3u);
  EXPECT_EQ(header->metadata.Architecture(), "llama");
  EXPECT_THAT(header->metadata.Uint("llama.block_count"), Optional(7u));
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].dtype, "f32");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(2, 3)) << "slowest dimension first";
  EXPECT_EQ(header->tensors[0].offset, header->data_start);
  EXPECT_EQ(file.substr(header->tensors[1].offset, header->tensors[1].bytes), "bbbb");
  EXPECT_EQ(header->tensors[1].offset % 32, 0u);
}

TEST(Gguf, ReadsVersion2AsVersion3) {
  fixtures::GgufFile raw = fixtures::MiniGguf("qwen3moe", 1, 4);
  raw.version = 2;
  const Result<GgufHeader> header = ParsedGguf(fixtures::GgufBytes(raw));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->version, 2u);
  EXPECT_EQ(header->tensors.size(), raw.tensors.size());
}

TEST(Gguf, AcceptsEveryAlignment) {
  for (const uint32_t alignment : {1u, 2u, 16u, 32u, 64u, 4096u}) {
    fixtures::GgufFile raw;
    raw.alignment = alignment;
    raw.pairs = {fixtures::GgufPairU32("general.alignment", alignment)};
    raw.tensors = {F32("a", {1}, "aaaa"), F32("b", {1}, "bbbb")};
    const std::string file = fixtures::GgufBytes(raw);
    const Result<GgufHeader> header = ParsedGguf(file);
    ASSERT_TRUE(header) << alignment << header.error().message;
    EXPECT_EQ(header->alignment, alignment);
    EXPECT_EQ(file.substr(header->tensors[1].offset, 4), "bbbb");
  }
}

TEST(Gguf, ReadsHeadersWithoutTensorsAndTensorsWithoutDimensions) {
  fixtures::GgufFile raw;
  raw.pairs = {fixtures::GgufPairU32("k", 1)};
  std::string file = fixtures::GgufBytes(raw);
  file.resize(24 + 8 + 1 + 4 + 4);  // without the padding, too
  const Result<GgufHeader> bare = ParsedGguf(file);
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->data_start, file.size());
  raw.tensors = {F32("scalar", {}, "ssss"), F32("four", {1, 1, 1, 1}, "ffff")};
  const Result<GgufHeader> header = ParsedGguf(fixtures::GgufBytes(raw));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors[0].bytes, 4u);
  EXPECT_TRUE(header->tensors[0].shape.empty());
}

TEST(Gguf, NeedsOnlyTheHeaderOfAFile) {
  const std::string file = fixtures::GgufBytes(fixtures::MiniGguf("qwen3moe", 2, 4));
  const Result<GgufHeader> whole = ParsedGguf(file);
  ASSERT_TRUE(whole);
  const std::string_view start = std::string_view(file).substr(0, whole->data_start);
  const Result<GgufHeader> header =
      ParseGguf("f.gguf", std::as_bytes(std::span(start)), file.size());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors.size(), whole->tensors.size());
}

TEST(Gguf, TheLastTensorMayHaveNoPadding) {
  fixtures::GgufFile raw;
  raw.tensors = {F32("a", {1}, "aaaa")};
  raw.pad_end = false;
  EXPECT_EQ(ErrorOf(raw), "");
  raw.tensors[0].bytes = "aaa";
  EXPECT_THAT(ErrorOf(raw), HasSubstr("tensor \"a\" at byte 24: data: expected 4 bytes"));
}

TEST(Gguf, ReadsQuantizedTypesByTheirBlocks) {
  fixtures::GgufFile raw;
  raw.tensors = {{.name = "q",
                  .dims = {512, 3},
                  .type = fixtures::kGgufTypeQ4K,
                  .bytes = std::string(864, 'q')}};
  const Result<GgufHeader> header = ParsedGguf(fixtures::GgufBytes(raw));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors[0].dtype, "q4_K");
  EXPECT_EQ(header->tensors[0].bytes, 864u);
  raw.tensors[0].dims = {256 + 32};
  EXPECT_THAT(ErrorOf(raw),
              HasSubstr("row of q4_K: expected a multiple of 256 elements, found 288"));
}

TEST(Gguf, EveryTypeThatGgmlRemovedIsNamed) {
  for (const uint32_t type : {4u, 5u, 15u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    fixtures::GgufFile raw;
    raw.tensors = {{.name = "t", .dims = {256}, .type = type, .bytes = "x"}};
    const Result<GgufHeader> header = ParsedGguf(fixtures::GgufBytes(raw));
    ASSERT_FALSE(header) << type;
    EXPECT_EQ(header.error().code, Code::kUnsupported);
    EXPECT_THAT(header.error().message, HasSubstr(Cat("found ", type, " (")));
  }
}

TEST(Gguf, ATypeOfIkLlamaCppIsRefusedByItsNameAndThatOfTheProject) {
  for (const auto& [type, name] :
       {std::pair(97u, "q8_0_x4"), std::pair(139u, "iq4_k"), std::pair(144u, "iq4_ks"),
        std::pair(158u, "iq1_kt"), std::pair(202u, "q4_0_r8"), std::pair(399u, "q8_K_r8")}) {
    fixtures::GgufFile raw;
    raw.tensors = {{.name = "t", .dims = {256}, .type = type, .bytes = "x"}};
    const Result<GgufHeader> header = ParsedGguf(fixtures::GgufBytes(raw));
    ASSERT_FALSE(header) << type;
    EXPECT_EQ(header.error().code, Code::kUnsupported);
    EXPECT_THAT(header.error().message,
                HasSubstr(Cat("found ", type, " (", name, ", a type of ik_llama.cpp)")));
    EXPECT_THAT(header.error().hint, HasSubstr("only ik_llama.cpp reads it"));
  }
}

TEST(Gguf, KeepsTheBytesOfValuesItDoesNotKnow) {
  const std::string list = fixtures::GgufList(1, 3, "abc");
  fixtures::GgufFile raw;
  raw.pairs = {{"strange", fixtures::kGgufArray, list},
               {"empty", fixtures::kGgufArray, fixtures::GgufList(fixtures::kGgufString, 0, "")},
               {"bools", fixtures::kGgufArray,
                fixtures::GgufList(fixtures::kGgufBool, 2, std::string("\1\0", 2))}};
  const Result<GgufHeader> header = ParsedGguf(fixtures::GgufBytes(raw));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->metadata.Find("strange")->bytes, list);
  EXPECT_EQ(header->metadata.Find("empty")->Count(), 0u);
  EXPECT_EQ(header->metadata.Find("bools")->Count(), 2u);
}

TEST(Gguf, NamesFileItemAndPlaceInErrors) {
  fixtures::GgufFile raw = fixtures::MiniGguf("qwen3moe", 1, 4);
  raw.pairs.push_back(raw.pairs[1]);
  EXPECT_THAT(ErrorOf(raw),
              HasSubstr("f.gguf: key \"qwen3moe.block_count\" at byte 279: expected once, found "
                        "already at byte 72"));
}

TEST(Gguf, AHostileNameStaysInItsQuotes) {
  fixtures::GgufFile raw;
  raw.tensors = {F32("a\x1b[2J", {1}, "aaaa")};
  EXPECT_THAT(ErrorOf(raw), HasSubstr("\"a\\x1b[2J\""));
  raw.tensors.clear();
  raw.pairs = {{"k\n\x1b", 77, ""}};
  const std::string error = ErrorOf(raw);
  EXPECT_THAT(error, HasSubstr("value type"));
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

TEST(Gguf, FindsADuplicateAmongManyNamesQuickly) {
  fixtures::GgufFile raw;
  for (int i = 0; i < 50'000; ++i) raw.tensors.push_back(F32(Cat("tensor.", i), {1}, "ffff"));
  EXPECT_EQ(ErrorOf(raw), "");
  raw.tensors.push_back(F32("tensor.31", {1}, "ffff"));
  EXPECT_THAT(ErrorOf(raw), HasSubstr("tensor \"tensor.31\""));
}

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
