#include "libshard/recipe/imatrix_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/format/gguf.h"
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

using fixtures::GgufNumber;
using fixtures::LegacyImatrix;
using testing::IsEmpty;

Result<Imatrix> ParseLegacy(const std::string& bytes) {
  return ParseImatrix("old.dat", std::as_bytes(std::span(bytes)));
}

std::string ErrorOf(const std::string& bytes) {
  const auto imatrix = ParseLegacy(bytes);
  if (imatrix) return "";
  EXPECT_EQ(imatrix.error().code, Code::kCorrupt);
  EXPECT_THAT(imatrix.error().message, HasSubstr("old.dat: "));
  return imatrix.error().message;
}

std::string Trailer(const std::string& dataset) {
  return GgufNumber(125, 4) + GgufNumber(dataset.size(), 4) + dataset;
}

TEST(LegacyImatrix, ReadsEntriesChunksAndTheNameOfTheText) {
  const auto imatrix = ParseLegacy(LegacyImatrix(
      {{"blk.0.attn_q.weight", {2, 4}, {2}}, {"output.weight", {3}, {5}}}, Trailer("wiki.txt")));
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  EXPECT_EQ(imatrix->file, "old.dat");
  EXPECT_EQ(imatrix->chunks, 125u);
  EXPECT_THAT(imatrix->datasets, ElementsAre("wiki.txt"));
  EXPECT_THAT(imatrix->entries.at("blk.0.attn_q.weight").sums, ElementsAre(2, 4));
  EXPECT_THAT(imatrix->entries.at("blk.0.attn_q.weight").counts, ElementsAre(2));
  EXPECT_THAT(imatrix->entries.at("output.weight").counts, ElementsAre(5));
}

TEST(LegacyImatrix, AcceptsAMissingTrailer) {
  const auto bare = ParseLegacy(LegacyImatrix({{"a", {1}, {1}}}));
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->chunks, 0u);
  const auto chunks = ParseLegacy(LegacyImatrix({{"a", {1}, {1}}}, GgufNumber(7, 4)));
  ASSERT_TRUE(chunks) << chunks.error().message;
  EXPECT_EQ(chunks->chunks, 7u);
  EXPECT_THAT(chunks->datasets, IsEmpty());
}

TEST(LegacyImatrix, TakesValuesWithoutCallsAsTheyAre) {
  const auto imatrix = ParseLegacy(LegacyImatrix({{"a", {3, 5}, {0}}}));
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  EXPECT_THAT(imatrix->entries.at("a").counts, ElementsAre(1));
}

TEST(LegacyImatrix, RefusesFilesOfAnotherKind) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("number of entries: expected 4 bytes at 0, found 0"));
  EXPECT_THAT(ErrorOf(std::string("\0\0\0\0", 4)), HasSubstr("expected an importance matrix"));
  EXPECT_THAT(ErrorOf("PK\3\4 some archive or other"), HasSubstr("expected an importance matrix"));
  EXPECT_THAT(ErrorOf("\xff\xff\xff\xff"), HasSubstr("expected at least 0, found -1"));
}

TEST(LegacyImatrix, RefusesCountsPastTheEndOfTheFile) {
  const std::string good = LegacyImatrix({{"name", {1, 2, 3, 4, 5, 6, 7, 8}, {1}}});
  const auto with = [&](size_t place, uint64_t number) {
    std::string bytes = good;
    return bytes.replace(place, 4, GgufNumber(number, 4));
  };
  EXPECT_THAT(ErrorOf(with(0, 3)),
              HasSubstr("number of entries of 3 before 48 bytes; an entry has at least 17"));
  EXPECT_THAT(ErrorOf(with(0, 2)),
              HasSubstr("name of an entry: length: expected 4 bytes at 52, found 0"));
  EXPECT_THAT(ErrorOf(with(4, 0)), HasSubstr("name of an entry: expected text, found none"));
  EXPECT_THAT(ErrorOf(with(4, 1000)), HasSubstr("expected at most 1024 bytes inside the file"));
  EXPECT_THAT(ErrorOf(with(12, 0xffffffff)),
              HasSubstr("entry \"name\": number of calls: expected at least 0, found -1"));
  EXPECT_THAT(ErrorOf(with(4, 0xffffffff)),
              HasSubstr("name of an entry: length: expected at least 0, found -1"));
  EXPECT_THAT(ErrorOf(with(16, 0)), HasSubstr("entry \"name\": number of values: expected 1 to 8"));
  EXPECT_THAT(ErrorOf(with(16, 9)), HasSubstr("found 9"));
  EXPECT_THAT(ErrorOf(with(16, 0x7fffffff)), HasSubstr("found 2147483647"));
}

TEST(LegacyImatrix, RefusesATruncatedFile) {
  const std::string bytes = LegacyImatrix({{"a", {1, 2}, {1}}, {"b", {3}, {1}}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A name, a number or values that the file has no room for.
    EXPECT_THAT(ErrorOf(bytes.substr(0, size)), HasSubstr(": expected ")) << size;
  }
}

TEST(LegacyImatrix, RefusesANameGivenTwice) {
  EXPECT_THAT(ErrorOf(LegacyImatrix({{"a", {1}, {1}}, {"a", {1}, {1}}})),
              HasSubstr("entry \"a\": expected once, found twice"));
}

TEST(LegacyImatrix, RefusesBytesAfterTheEnd) {
  EXPECT_THAT(ErrorOf(LegacyImatrix({{"a", {1}, {1}}}, Trailer("t") + "more")),
              HasSubstr("expected the end at 30, found 4 more bytes"));
}

TEST(LegacyImatrix, NamesTheEntryWithANumberThatCannotBeAMeanSquare) {
  EXPECT_THAT(ErrorOf(LegacyImatrix({{"a", {1, -1}, {1}}})), HasSubstr("entry \"a\": sum 1: "));
}

Imatrix MeasuredSample() {
  Imatrix imatrix;
  imatrix.datasets = {"a.txt", "b.txt"};
  imatrix.chunks = 3;
  imatrix.chunk_tokens = 512;
  imatrix.router_digest = std::string(32, 'a');
  imatrix.entries["blk.0.attn_q.weight"] = {{2, 4, 6}, {7}};
  imatrix.entries["blk.0.ffn_up_exps.weight"] = {{1, 2, 3, 4}, {1, 0}};
  return imatrix;
}

class ImatrixWrite : public testing::Test {
 protected:
  std::string path() const { return (dir_ / "im.gguf").string(); }
  std::string Refusal(const Imatrix& imatrix) const {
    const Status written = WriteImatrix(path(), imatrix);
    EXPECT_FALSE(fs::exists(path()));
    if (written) return "";
    EXPECT_EQ(written.error().code, Code::kCorrupt);
    return written.error().message;
  }
  fixtures::TempDir dir_;
};

TEST_F(ImatrixWrite, IsReadAsItWasWritten) {
  const Imatrix imatrix = MeasuredSample();
  ASSERT_TRUE(WriteImatrix(path(), imatrix));
  const auto read = ReadImatrix(path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->datasets, imatrix.datasets);
  EXPECT_EQ(read->chunks, 3u);
  EXPECT_EQ(read->chunk_tokens, 512u);
  EXPECT_EQ(read->router_digest, imatrix.router_digest);
  ASSERT_EQ(read->entries.size(), 2u);
  for (const auto& [name, entry] : imatrix.entries) {
    EXPECT_EQ(read->entries.at(name).sums, entry.sums) << name;
    EXPECT_EQ(read->entries.at(name).counts, entry.counts) << name;
  }
}

TEST_F(ImatrixWrite, LaysOutTheTensorsOfLlamaImatrix) {
  ASSERT_TRUE(WriteImatrix(path(), MeasuredSample()));
  const auto bytes = ReadTextFile(path(), 1u << 20);
  ASSERT_TRUE(bytes);
  const auto header = ParseGguf(path(), std::as_bytes(std::span(*bytes)), bytes->size());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->metadata.String("general.type"), "imatrix");
  ASSERT_EQ(header->tensors.size(), 4u);
  EXPECT_EQ(header->tensors[0].name, "blk.0.attn_q.weight.in_sum2");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(1, 3));
  EXPECT_EQ(header->tensors[1].name, "blk.0.attn_q.weight.counts");
  EXPECT_THAT(header->tensors[1].shape, ElementsAre(1, 1));
  EXPECT_THAT(header->tensors[2].shape, ElementsAre(2, 2));
  EXPECT_THAT(header->tensors[3].shape, ElementsAre(2, 1));
}

TEST_F(ImatrixWrite, WritesNoMoepackKeyWithoutADigest) {
  Imatrix imatrix = MeasuredSample();
  imatrix.router_digest.clear();
  ASSERT_TRUE(WriteImatrix(path(), imatrix));
  const auto bytes = ReadTextFile(path(), 1u << 20);
  ASSERT_TRUE(bytes);
  EXPECT_THAT(*bytes, testing::Not(HasSubstr("moepack")));
}

TEST_F(ImatrixWrite, RefusesWhatItsReaderWouldRefuse) {
  Imatrix imatrix = MeasuredSample();
  imatrix.entries["blk.0.ffn_up_exps.weight"].sums[2] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Refusal(imatrix), HasSubstr("entry \"blk.0.ffn_up_exps.weight\": sum 2: expected a "
                                          "finite number, not negative, found inf"));
  imatrix = MeasuredSample();
  imatrix.entries["blk.0.attn_q.weight"].counts = {1, 2};
  EXPECT_THAT(Refusal(imatrix), HasSubstr("equally many sums for each of 2 counts, found 3"));
  imatrix = MeasuredSample();
  imatrix.entries[std::string(60, 'x')] = {{1}, {1}};
  EXPECT_THAT(Refusal(imatrix), HasSubstr("name: expected at most 63 bytes, found 68"));
  imatrix = MeasuredSample();
  imatrix.router_digest = "none";
  EXPECT_THAT(Refusal(imatrix), HasSubstr("moepack.router_digest: expected 32 hexadecimal digits, "
                                          "found \"none\""));
  imatrix.entries.clear();
  EXPECT_THAT(Refusal(imatrix), HasSubstr("expected an entry per weight, found none"));
}

}  // namespace

}  // namespace moepack
