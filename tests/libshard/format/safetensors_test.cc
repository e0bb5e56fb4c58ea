#include "libshard/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/safetensors_writer.h"

namespace moepack {
namespace {

using testing::HasSubstr;

Result<SafetensorsHeader> ParsedSafetensors(const std::string& file) {
  return moepack::ParseSafetensors("f.safetensors",
                                   std::as_bytes(std::span(file.data(), file.size())), file.size());
}

std::string SafetensorsErrorOf(const std::string& header, size_t data_bytes = 0) {
  const Result<SafetensorsHeader> parsed =
      ParsedSafetensors(fixtures::WithHeader(header, std::string(data_bytes, '\0')));
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, Code::kCorrupt);
  EXPECT_THAT(parsed.error().message, HasSubstr("f.safetensors: "));
  return parsed.error().message;
}

TEST(Safetensors, ReadsWhatAnIndependentWriterWrote) {
  const std::string file = fixtures::SafetensorsBytes(
      {{"a", "BF16", {2, 3}, std::string(12, 'a')}, {"b", "F8_E4M3", {5}, "bbbbb"}},
      {{"format", "pt"}});
  const Result<SafetensorsHeader> header = ParsedSafetensors(file);
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].dtype, "BF16");
  EXPECT_EQ(header->tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(file.substr(header->tensors[1].offset, header->tensors[1].bytes), "bbbbb");
  EXPECT_EQ(header->metadata.at("format"), "pt");
}

TEST(Safetensors, OrdersTensorsByOffsetWhateverTheHeaderSays) {
  const Result<SafetensorsHeader> header = ParsedSafetensors(
      fixtures::WithHeader(R"({"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("a":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
                           "zzaaa"));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->tensors[0].name, "z");
  EXPECT_EQ(header->tensors[1].name, "a");
}

TEST(Safetensors, AcceptsScalarsEmptyTensorsAndNoTensors) {
  EXPECT_EQ(SafetensorsErrorOf(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                               R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}})",
                               4),
            "");
  EXPECT_EQ(SafetensorsErrorOf("{}"), "");
}

TEST(Safetensors, AcceptsEveryTypeOfTheFormat) {
  for (const char* dtype : {"BOOL", "U8", "I8", "U16", "I16", "F16", "BF16", "U32", "I32", "F32",
                            "U64", "I64", "F64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "C64"}) {
    const quant::Format* format = quant::FindSafetensorsFormat(dtype);
    ASSERT_NE(format, nullptr) << dtype;
    const uint64_t bytes = *format->BytesFor(4);
    EXPECT_EQ(SafetensorsErrorOf(R"({"t":{"dtype":")" + std::string(dtype) +
                                     R"(","shape":[4],"data_offsets":[0,)" + std::to_string(bytes) +
                                     "]}}",
                                 bytes),
              "");
  }
}

TEST(Safetensors, CountsSubByteTypesInBits) {
  EXPECT_EQ(SafetensorsErrorOf(R"({"t":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}})", 3),
            "");
  EXPECT_EQ(SafetensorsErrorOf(R"({"t":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3),
            "");
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2),
              HasSubstr("expected whole bytes, found 2"));
}

TEST(Safetensors, KeepsTypesItDoesNotKnow) {
  const Result<SafetensorsHeader> header = ParsedSafetensors(
      fixtures::WithHeader(R"({"t":{"dtype":"F3_X","shape":[9],"data_offsets":[0,4]}})", "abcd"));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->tensors[0].format, nullptr);
  EXPECT_EQ(header->tensors[0].dtype, "F3_X");
  EXPECT_EQ(header->tensors[0].bytes, 4u);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = fixtures::SafetensorsBytes({{"a", "U8", {9}, "123456789"}});
  for (size_t length = 0; length < whole.size(); ++length) {
    const Result<SafetensorsHeader> header = ParsedSafetensors(whole.substr(0, length));
    ASSERT_FALSE(header) << length;
    EXPECT_EQ(header.error().code, Code::kCorrupt) << length;
  }
}

TEST(Safetensors, RefusesWrongLengths) {
  std::string file(8, '\xff');
  EXPECT_THAT(ParsedSafetensors(file).error().message,
              HasSubstr("at most 100000000, found 1844674407370955"));
  file = std::string("\x10\0\0\0\0\0\0\0{}", 10);
  EXPECT_THAT(ParsedSafetensors(file).error().message,
              HasSubstr("at most 2 (the rest of the file), found 16"));
}

TEST(Safetensors, NamesTensorExpectedAndFound) {
  EXPECT_EQ(SafetensorsErrorOf(R"({"t":{"dtype":"F32","shape":[2,2],"data_offsets":[0,12]}})", 12),
            "f.safetensors: tensor \"t\": F32 of shape [2, 2]: expected 16 bytes, found 12");
}

TEST(Safetensors, RefusesHolesOverlapsAndTrailingBytes) {
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3),
              HasSubstr("expected at 0, found at 1, after a hole"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                 R"("u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                                 3),
              HasSubstr("inside the tensor before it"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3),
              HasSubstr("expected 2 bytes, found 3"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1),
              HasSubstr("expected at most at 1 where the file ends, found 2"));
}

TEST(Safetensors, RefusesNumbersThatOverflow) {
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],)"
                                 R"("data_offsets":[0,0]}})"),
              HasSubstr("fewer than 2^64 elements"));
  EXPECT_NE(SafetensorsErrorOf(R"({"t":{"dtype":"F64","shape":[2305843009213693952],)"
                               R"("data_offsets":[0,0]}})"),
            "");
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[18446744073709551616],)"
                                 R"("data_offsets":[0,0]}})"),
              HasSubstr("at most 64 bits"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[3,2]}})", 3),
              HasSubstr("begin <= end, found [3, 2]"));
}

TEST(Safetensors, RefusesMalformedEntries) {
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[0]}})"), HasSubstr("data_offsets"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("dtype"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})"),
              HasSubstr("found \"x\""));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":8,"shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("dtype: expected a string, found 8"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})"),
              HasSubstr("shape: expected whole numbers, found -1"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[1.5],"data_offsets":[0,0]}})"),
              HasSubstr("expected whole numbers, found 1.5"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":"U8","shape":[[1]],"data_offsets":[0,0]}})"),
              HasSubstr("found an array"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":{"dtype":{},"shape":[1],"data_offsets":[0,0]}})"),
              HasSubstr("found an object"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"t":7})"), HasSubstr("expected an object, found 7"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("tensor name"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("tensor name"));
  EXPECT_THAT(SafetensorsErrorOf(R"({"__metadata__":{"a":1}})"),
              HasSubstr("expected a string, found 1"));
  EXPECT_THAT(SafetensorsErrorOf(R"([1])"), HasSubstr("expected '{' as the first byte"));
}

TEST(Safetensors, RefusesImpossibleTensorNames) {
  for (const std::string& name : {std::string(1025, 'n'), std::string("a\u202eb")}) {
    EXPECT_THAT(
        SafetensorsErrorOf("{\"" + name + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
        HasSubstr("tensor name: expected printable text of at most 1024 bytes"));
  }
}

TEST(Safetensors, RefusesMoreDimensionsThanAnyTensorHas) {
  std::string shape = "1";
  for (int i = 0; i < 40; ++i) shape += ",1";
  EXPECT_THAT(SafetensorsErrorOf(
                  R"({"t":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})", 1),
              HasSubstr("at most 32"));
}

TEST(SafetensorsWriter, ReadsBackAndStartsDataWhereAsked) {
  TensorEntry entry;
  entry.name = "weird \"name\" é";
  entry.dtype = "U8";
  entry.shape = {3};
  entry.bytes = 3;
  for (const uint64_t residue : {0u, 8u, 1234u, 4088u}) {
    const std::string header = BuildSafetensorsHeader({entry}, {{"k", "v"}}, residue);
    EXPECT_EQ(header.size() % 4096, residue / 8 * 8);
    const Result<SafetensorsHeader> parsed = ParsedSafetensors(header + "abc");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->tensors[0].name, entry.name);
    EXPECT_EQ(parsed->metadata.at("k"), "v");
    EXPECT_EQ(parsed->data_start, header.size());
  }
}

}  // namespace
}  // namespace moepack
