#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/recipe/imatrix_read.h"
#include "tests/libshard/recipe/imatrix_file.h"

namespace moepack {
namespace {

using fixtures::GgufNumber;
using fixtures::LegacyImatrix;
using testing::ElementsAre;
using testing::HasSubstr;
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

}  // namespace
}  // namespace moepack
