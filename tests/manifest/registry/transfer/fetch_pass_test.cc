#include "manifest/registry/transfer/fetch_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/manifest/registry/transfer/fetch_sample.h"

namespace moepack::registry {
namespace {

class FetchPassTest : public FetchSample {
 protected:
  PartFile Open(const FarSource& from) const {
    auto part = PartFile::Open(*directory_, "file",
                               CellMap(from.Stated().sha256, from.size(), kTestCell), {});
    EXPECT_TRUE(part);
    return std::move(*part);
  }
};

TEST_F(FetchPassTest, FetchesMissingCellsAndHashesAll) {
  const FarSource from(BytesFromSeed(5 * kTestCell));
  PieceBuffers buffers(2, kTestPiece);
  {
    PartFile part = Open(from);
    for (const uint64_t cell : {0, 3}) {
      const std::string_view bytes =
          std::string_view(from.bytes()).substr(cell * kTestCell, kTestCell);
      ASSERT_TRUE(part.Write(cell * kTestCell, std::as_bytes(std::span(bytes))));
      ASSERT_TRUE(part.Keep({cell}));
    }
  }
  PartFile part = Open(from);
  const auto outcome = FetchMissing(from, part, buffers, {.connections = 2});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->sha256, Sha256Hex(from.bytes()));
  EXPECT_EQ(outcome->fetched_bytes, 3 * kTestCell);
  EXPECT_EQ(from.counts->bytes, 3 * kTestCell);
  EXPECT_EQ(part.cells().done_bytes(), from.size());
}

TEST_F(FetchPassTest, ReadsPiecesWithinCellsAndNoMoreAtOnceThanConnections) {
  FarSource from(BytesFromSeed(5 * kTestCell + 7));
  std::mutex mutex;
  std::vector<std::pair<uint64_t, uint64_t>> reads;
  from.before = [&](uint64_t offset, uint64_t bytes) {
    const std::lock_guard lock(mutex);
    reads.emplace_back(offset, bytes);
    return Ok();
  };
  constexpr uint64_t kOdd = 3000;  // pieces that do not divide the cells
  PieceBuffers buffers(3, kOdd);
  PartFile part = Open(from);
  ASSERT_TRUE(FetchMissing(from, part, buffers, {.connections = 3}));
  EXPECT_LE(from.counts->most, 3u);
  std::sort(reads.begin(), reads.end());
  uint64_t at = 0;
  for (const auto& [offset, bytes] : reads) {
    EXPECT_EQ(offset, at);
    EXPECT_LE(bytes, kOdd);
    EXPECT_EQ(offset / kTestCell, (offset + bytes - 1) / kTestCell);
    at += bytes;
  }
  EXPECT_EQ(at, from.size());
}

TEST_F(FetchPassTest, StopsWhenTheBuffersAreStopped) {
  FarSource from(BytesFromSeed(20 * kTestCell));
  PieceBuffers buffers(2, kTestPiece);
  from.after = [&](uint64_t offset, std::span<std::byte>) {
    if (offset >= 10 * kTestCell) buffers.Stop();
  };
  PartFile part = Open(from);
  const auto outcome = FetchMissing(from, part, buffers, {.connections = 2});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInterrupted);
  EXPECT_GE(part.cells().done_bytes(), 8 * kTestCell);
}

// On a disk, where recording a cell takes much longer than reading it from memory.
TEST(FetchPassOnDiskTest, StartsNoMoreCellsThanMayBeLost) {
  constexpr size_t kConnections = 2;
  const fixtures::TempDir dir;
  const auto directory = InsideDirectory::Open(dir.path());
  ASSERT_TRUE(directory);
  FarSource from(BytesFromSeed(200 * kTestCell));
  const std::string sha256 = from.Stated().sha256;
  std::atomic<uint64_t> most{0};
  std::mutex mutex;
  from.before = [&](uint64_t offset, uint64_t) {
    const std::lock_guard lock(mutex);
    CellMap noted(sha256, from.size(), kTestCell);
    const auto text = directory->ReadText("file.cells", 1000);
    if (text) {
      EXPECT_TRUE(noted.Read("file.cells", *text));
    }
    // A read that waited long may belong to a cell before those that are already done.
    const uint64_t begun = offset / kTestCell + 1, done = noted.done_bytes() / kTestCell;
    if (begun > done) most = std::max<uint64_t>(most, begun - done);
    return Ok();
  };
  FetchOptions options = SmallCells(kConnections);
  ASSERT_TRUE(FetchFile(from, from.Stated(), *directory, "file", options));
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, kConnections + 1);
}

TEST_F(FetchPassTest, AnExceptionOfTheSourceReachesTheCaller) {
  FarSource from(BytesFromSeed(4 * kTestCell));
  from.before = [](uint64_t, uint64_t) -> Status { throw std::bad_alloc(); };
  PieceBuffers buffers(2, kTestPiece);
  PartFile part = Open(from);
  EXPECT_THROW((void)FetchMissing(from, part, buffers, {.connections = 2}).has_value(),
               std::bad_alloc);
}

}  // namespace
}  // namespace moepack::registry
