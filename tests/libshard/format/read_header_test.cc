#include "libshard/format/read_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"

namespace moepack {
namespace {

using testing::HasSubstr;

void Put(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

InputFile Opened(const fs::path& path) {
  Result<InputFile> file = InputFile::Open(path);
  EXPECT_TRUE(file);
  return std::move(*file);
}

// A GGUF whose header takes a little more than `bytes`.
std::string GgufWithText(size_t bytes) {
  GgufMetadata metadata;
  metadata.Set("some.text", GgufValue::String(std::string(bytes, 'x')));
  metadata.Set("after", GgufValue::U32(7));
  return BuildGgufHeader(metadata, {});
}

TEST(ReadHeader, ReadsAsMuchOfAGgufAsTheHeaderNeeds) {
  const fixtures::TempDir dir;
  for (const size_t bytes : {0u, 1u << 19, (1u << 20) - 60, 1u << 20, 5u << 20}) {
    Put(dir / "f", GgufWithText(bytes));
    const Result<GgufHeader> header = ReadGgufHeader(Opened(dir / "f"), "f");
    ASSERT_TRUE(header) << bytes << ": " << header.error().message;
    EXPECT_EQ(header->metadata.Uint("after"), 7u);
    EXPECT_EQ(header->metadata.String("some.text")->size(), bytes);
  }
}

TEST(ReadHeader, LimitsTheHeaderOfAGguf) {
  const fixtures::TempDir dir;
  Put(dir / "f", GgufWithText(100));
  // The length of the text, after magic, version, counts, the key and the type.
  const size_t at = 4 + 4 + 8 + 8 + 8 + 9 + 4;
  std::fstream file(dir / "f", std::ios::binary | std::ios::in | std::ios::out);
  const uint64_t length = uint64_t{1} << 29;
  file.seekp(at).write(reinterpret_cast<const char*>(&length), sizeof(length));
  file.close();
  fs::resize_file(dir / "f", uint64_t{1} << 32);  // sparse
  const Result<GgufHeader> header = ReadGgufHeader(Opened(dir / "f"), "f");
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code, Code::kCorrupt);
  EXPECT_THAT(header.error().message, HasSubstr("header: expected at most 268435456 bytes"));
}

// Eight bytes each in the file, several times that in memory.
TEST(ReadHeader, RefusesTwentyMillionEmptyStrings) {
  GgufMetadata metadata;
  metadata.Set("list", GgufValue::Strings({}));
  std::string header = BuildGgufHeader(metadata, {}, 32);
  const size_t count_at = 4 + 4 + 8 + 8 + 8 + 4 + 4 + 4;
  const uint64_t count = 20'000'000;
  header.replace(count_at, sizeof(count), reinterpret_cast<const char*>(&count), sizeof(count));
  const fixtures::TempDir dir;
  Put(dir / "f", header);
  fs::resize_file(dir / "f", header.size() + 8 * count);  // sparse, all lengths 0
  const Result<GgufHeader> read = ReadGgufHeader(Opened(dir / "f"), "f");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message,
              HasSubstr("array length: expected at most 4194304 elements, found 20000000"));
}

TEST(ReadHeader, ReadsNoMoreOfASafetensorsFileThanTheHeader) {
  const fixtures::TempDir dir;
  const std::string header = BuildSafetensorsHeader({}, {{"key", "value"}});
  Put(dir / "f", header);
  const Result<SafetensorsHeader> read = ReadSafetensorsHeader(Opened(dir / "f"), "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata.at("key"), "value");
  Put(dir / "short", "1234567");
  EXPECT_THAT(ReadSafetensorsHeader(Opened(dir / "short"), "f").error().message,
              HasSubstr("header length: expected 8 bytes"));
  Put(dir / "lie", std::string("\xff\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(ReadSafetensorsHeader(Opened(dir / "lie"), "f").error().message,
              HasSubstr("header length: expected at most 2 (the rest of the file), found 255"));
}

TEST(ReadHeader, AFileTruncatedDuringTheReadIsCorrupt) {
  const fixtures::TempDir dir;
  Put(dir / "a.gguf", GgufWithText(100'000));
  const InputFile gguf = Opened(dir / "a.gguf");
  fs::resize_file(dir / "a.gguf", 50'000);
  const auto cut = ReadGgufHeader(gguf, "a.gguf");
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
  EXPECT_THAT(cut.error().message, HasSubstr("before the end of the file"));

  Put(dir / "a.safetensors", BuildSafetensorsHeader({}, {{"key", "value"}}));
  const InputFile safetensors = Opened(dir / "a.safetensors");
  fs::resize_file(dir / "a.safetensors", 20);
  EXPECT_EQ(ReadSafetensorsHeader(safetensors, "f").error().code, Code::kCorrupt);
  EXPECT_EQ(Sha256OfStart(safetensors, 21).error().code, Code::kCorrupt);
}

TEST(ReadHeader, HashesTheFirstBytes) {
  const fixtures::TempDir dir;
  const std::string text(3'000'001, 'z');
  Put(dir / "f", text);
  for (const size_t bytes : {size_t{0}, size_t{10}, text.size()}) {
    EXPECT_EQ(Sha256OfStart(Opened(dir / "f"), bytes).value(),
              Sha256Hex(std::string_view(text).substr(0, bytes)));
  }
}

}  // namespace
}  // namespace moepack
