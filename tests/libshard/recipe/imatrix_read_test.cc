#include "libshard/recipe/imatrix_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "tests/libshard/recipe/imatrix_file.h"

namespace moepack {
namespace {

using fixtures::GgufBytes;
using fixtures::GgufFile;
using fixtures::ImatrixFile;
using testing::ElementsAre;
using testing::HasSubstr;

Result<Imatrix> Parse(const std::string& bytes) {
  return ParseImatrix("dir/im.gguf", std::as_bytes(std::span(bytes)));
}

std::string ImatrixReadErrorOf(const GgufFile& file) {
  const auto imatrix = Parse(GgufBytes(file));
  if (imatrix) return "";
  EXPECT_EQ(imatrix.error().code, Code::kCorrupt);
  EXPECT_THAT(imatrix.error().message, HasSubstr("dir/im.gguf: "));
  return imatrix.error().message;
}

GgufFile Small() {
  return ImatrixFile({{"blk.0.attn_q.weight", {2, 4, 6}, {2}},
                      {"blk.0.ffn_up_exps.weight", {1, 2, 3, 4}, {1, 0}}});
}

TEST(ImatrixRead, ReadsSumsCountsAndTheirOrigin) {
  const auto imatrix = Parse(GgufBytes(Small()));
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  EXPECT_EQ(imatrix->file, "im.gguf");
  EXPECT_EQ(imatrix->sha256.size(), 64u);
  EXPECT_THAT(imatrix->datasets, ElementsAre("text.txt"));
  EXPECT_EQ(imatrix->chunks, 8u);
  EXPECT_EQ(imatrix->chunk_tokens, 256u);
  ASSERT_EQ(imatrix->entries.size(), 2u);
  EXPECT_THAT(imatrix->entries.at("blk.0.attn_q.weight").sums, ElementsAre(2, 4, 6));
  EXPECT_THAT(imatrix->entries.at("blk.0.ffn_up_exps.weight").counts, ElementsAre(1, 0));
}

TEST(ImatrixRead, ReadsTheFileThatLlamaImatrixWrote) {
  const char* shared = std::getenv("MOEPACK_SHARED");
  const fs::path root =
      shared != nullptr ? fs::path(shared) : fs::path(MOEPACK_SOURCE_DIR) / "../shared";
  const fs::path path = root / "golden/convert/qwen3-moe/gguf/imatrix.gguf";
  if (!fs::exists(path)) GTEST_SKIP() << "not read: there is no " << path;
  const auto imatrix = ReadImatrix(path.string());
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  EXPECT_EQ(imatrix->entries.size(), 24u);
  EXPECT_EQ(imatrix->chunks, 8u);
  EXPECT_EQ(imatrix->chunk_tokens, 256u);
  EXPECT_THAT(imatrix->datasets, ElementsAre("text.txt"));
  const ImatrixEntry& up = imatrix->entries.at("blk.0.ffn_up_exps.weight");
  EXPECT_EQ(up.sums.size(), 5u * 256u);
  EXPECT_THAT(up.counts, ElementsAre(988, 1197, 774, 140, 997));
  EXPECT_THAT(imatrix->entries.at("blk.2.attn_output.weight").counts, ElementsAre(2048));
}

TEST(ImatrixRead, RoundsCountsToWholeNumbers) {
  const auto imatrix = Parse(GgufBytes(ImatrixFile({{"a", {1, 2}, {2.5F, 0.25F}}})));
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  EXPECT_THAT(imatrix->entries.at("a").counts, ElementsAre(3, 0));
}

TEST(ImatrixRead, SkipsTensorsOfNewerWriters) {
  GgufFile file = Small();
  file.tensors.push_back({"blk.0.attn_q.weight.in_sum", {3}, 0, std::string(12, '\0')});
  const auto imatrix = Parse(GgufBytes(file));
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  EXPECT_EQ(imatrix->entries.size(), 2u);
}

TEST(ImatrixRead, RefusesAModel) {
  GgufFile file = Small();
  file.pairs[0] = fixtures::GgufPairString("general.type", "model");
  EXPECT_THAT(ImatrixReadErrorOf(file),
              HasSubstr("general.type: expected \"imatrix\", found \"model\""));
  file.pairs.erase(file.pairs.begin());
  EXPECT_THAT(ImatrixReadErrorOf(file),
              HasSubstr("general.type: expected \"imatrix\", found none"));
}

TEST(ImatrixRead, RefusesAFileWithoutItsKeys) {
  for (const auto& [index, message] :
       {std::pair{1, "imatrix.datasets: expected an array of strings, found none"},
        {2, "imatrix.chunk_count: expected a whole number of at most 32 bits, found none"},
        {3, "imatrix.chunk_size: expected a whole number of at most 32 bits, found none"}}) {
    GgufFile file = Small();
    file.pairs.erase(file.pairs.begin() + index);
    EXPECT_THAT(ImatrixReadErrorOf(file), HasSubstr(message));
  }
  GgufFile file = Small();
  file.pairs[2] = {"imatrix.chunk_count", 10, fixtures::GgufNumber(uint64_t{1} << 32, 8)};
  EXPECT_THAT(ImatrixReadErrorOf(file), HasSubstr("found 4294967296"));
}

TEST(ImatrixRead, RefusesAnIncompleteEntry) {
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({{"a", {1, 2}, {}}})),
              HasSubstr("entry \"a\": expected sums and counts, found no counts tensor"));
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({{"a", {}, {1}}})),
              HasSubstr("found no in_sum2 tensor"));
}

TEST(ImatrixRead, RefusesSumsThatDoNotFitTheCounts) {
  GgufFile file = ImatrixFile({{"a", {1, 2, 3}, {1}}});
  file.tensors[1] = {"a.counts", {2}, 0, fixtures::ImatrixFloats({1, 1})};
  EXPECT_THAT(ImatrixReadErrorOf(file),
              HasSubstr("entry \"a\": expected equally many sums for each of 2 "
                        "counts, found 3"));
}

TEST(ImatrixRead, RefusesOtherTypesThanF32) {
  GgufFile file = ImatrixFile({{"a", {1, 2}, {1}}});
  file.tensors[0].type = 26;  // i32
  EXPECT_THAT(ImatrixReadErrorOf(file),
              HasSubstr("tensor \"a.in_sum2\": expected F32 values, found 8 bytes of "));
}

TEST(ImatrixRead, NamesTheEntryWithANumberThatCannotBeASumOfSquares) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({{"a", {1, nan}, {1}}})),
              HasSubstr("entry \"a\": sum 1: expected a finite number, not negative, found nan"));
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({{"a", {infinity, 1}, {1}}})), HasSubstr("sum 0: "));
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({{"a", {1, -2}, {1}}})), HasSubstr("sum 1: "));
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({{"a", {1, 2}, {-1}}})),
              HasSubstr("\"a\": count 0: "));
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({{"a", {1, 2}, {nan}}})),
              HasSubstr("\"a\": count 0: "));
}

TEST(ImatrixRead, RefusesAFileWithoutEntries) {
  EXPECT_THAT(ImatrixReadErrorOf(ImatrixFile({})),
              HasSubstr("expected an entry per weight, found none"));
}

TEST(ImatrixRead, RefusesATruncatedFile) {
  const std::string bytes = GgufBytes(Small());
  for (size_t size = 0; size + 32 < bytes.size(); size += 7) {
    const auto imatrix = Parse(bytes.substr(0, size));
    ASSERT_FALSE(imatrix) << size;
    EXPECT_EQ(imatrix.error().code, Code::kCorrupt);
  }
}

TEST(ImatrixRead, NamesAMissingFile) {
  const fixtures::TempDir directory;
  const auto imatrix = ReadImatrix((directory / "none.gguf").string());
  ASSERT_FALSE(imatrix);
  EXPECT_EQ(imatrix.error().code, Code::kNotFound);
  EXPECT_THAT(imatrix.error().message, HasSubstr("none.gguf"));
}

}  // namespace
}  // namespace moepack
