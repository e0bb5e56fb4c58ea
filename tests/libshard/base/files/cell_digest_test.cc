#include "libshard/base/files/cell_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace moepack {
namespace {

CellSha256 Hashed(const std::string& text, uint64_t cell_bytes, size_t step) {
  CellSha256 hash(cell_bytes);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  for (size_t at = 0; at < bytes.size(); at += step)
    hash.Update(bytes.subspan(at, std::min(step, bytes.size() - at)));
  return hash;
}

TEST(CellSha256, HashesTheWholeAndEachCellHoweverBytesAreSplit) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 251);
  for (const size_t step : {1, 99, 100, 101, 250, 1000}) {
    for (const size_t size : {950, 1000}) {
      const std::string part = text.substr(0, size);
      CellSha256 hash = Hashed(part, 100, step);
      EXPECT_EQ(hash.Finish(), Sha256Hex(part));
      const CellDigests cells = hash.TakeCells();
      EXPECT_EQ(cells.bytes, 100u);
      ASSERT_EQ(cells.sha256.size(), 10u);
      for (size_t i = 0; i < 10; ++i)
        EXPECT_EQ(cells.sha256[i], Sha256Hex(part.substr(i * 100, 100)));
    }
  }
}

TEST(CellSha256, HashesOnlyTheWholeWithoutCells) {
  CellSha256 hash = Hashed("abc", 0, 3);
  EXPECT_EQ(hash.Finish(), Sha256Hex(std::string_view("abc")));
  EXPECT_EQ(hash.TakeCells(), CellDigests());
}

TEST(CellSha256, AnEmptyFileHasNoCells) {
  CellSha256 hash(100);
  EXPECT_EQ(hash.Finish(), Sha256Hex(std::string_view("")));
  EXPECT_TRUE(hash.TakeCells().sha256.empty());
}

}  // namespace
}  // namespace moepack
