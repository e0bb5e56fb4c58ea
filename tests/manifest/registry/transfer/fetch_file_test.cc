#include "manifest/registry/transfer/fetch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "libshard/base/text/text.h"
#include "manifest/registry/transfer/cell_map.h"
#include "tests/manifest/registry/transfer/fetch_sample.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class FetchFileTest : public FetchSample {
 protected:
  // Changes the byte at `place` in the first `times` reads.
  static void Spoil(FarSource& from, uint64_t place, int times) {
    auto left = std::make_shared<std::atomic<int>>(times);
    from.after = [=](uint64_t offset, std::span<std::byte> out) {
      const bool inside = place >= offset && place < offset + out.size();
      if (inside && (*left)-- > 0) out[place - offset] ^= std::byte{1};
    };
  }
};

TEST_F(FetchFileTest, FetchesFilesOfAnySizeAndReadsEachByteOnce) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, kTestPiece, kTestCell - 1, kTestCell,
                              kTestCell + 1, 10 * kTestCell + 3}) {
    for (const size_t connections : {1, 4}) {
      const FarSource from(BytesFromSeed(size));
      const auto report = Fetch(from, SmallCells(connections));
      ASSERT_TRUE(report) << report.error().message;
      ExpectWhole(from);
      EXPECT_EQ(report->fetched_bytes, size);
      EXPECT_EQ(report->resumed_bytes, 0u);
      EXPECT_EQ(from.counts->bytes, size);
    }
  }
}

TEST_F(FetchFileTest, ReplacesAnExistingFileAndMakesFolders) {
  const FarSource from(BytesFromSeed(3 * kTestCell));
  Put("file", "old");
  ASSERT_TRUE(Fetch(from));
  ExpectWhole(from);
  const auto report = FetchFile(from, from.Stated(), *directory_, "a/b/file", SmallCells());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(Files(), (std::vector<std::string>{"a/b/file", "file"}));
}

TEST_F(FetchFileTest, ResumesFromFinishedCellsAfterASourceError) {
  const FetchOptions options = SmallCells();
  FarSource from(BytesFromSeed(40 * kTestCell));
  FetchSome(from, 25 * kTestCell, options);
  EXPECT_EQ(Files(), (std::vector<std::string>{"file.cells", "file.part"}));
  const auto report = Fetch(from, options);
  ASSERT_TRUE(report) << report.error().message;
  ExpectWhole(from);
  EXPECT_GE(report->resumed_bytes, 25 * kTestCell - CellsInFlight(options));
  EXPECT_EQ(report->resumed_bytes + report->fetched_bytes, from.size());
  EXPECT_EQ(from.counts->bytes, report->fetched_bytes);
  EXPECT_EQ(report->again_bytes, 0u);
}

TEST_F(FetchFileTest, ASourceThatEndsEarlyReportsItAndKeepsFinishedCells) {
  FarSource from(BytesFromSeed(9 * kTestCell));
  from.before = [&](uint64_t offset, uint64_t bytes) -> Status {
    if (offset + bytes > 8 * kTestCell) return EndsEarly("https://far/blob", offset, bytes, 0);
    return Ok();
  };
  const auto report = Fetch(from, SmallCells(1));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt);
  EXPECT_THAT(report.error().message, HasSubstr("https://far/blob"));
  EXPECT_THAT(Get("file.cells"), HasSubstr("\"done\":\"111111110\""));
}

TEST_F(FetchFileTest, AnInterruptKeepsFinishedCells) {
  FarSource from(BytesFromSeed(20 * kTestCell));
  from.after = [](uint64_t offset, std::span<std::byte>) {
    if (offset >= 12 * kTestCell) InterruptRequested() = true;
  };
  const auto stopped = Fetch(from);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kInterrupted);
  InterruptRequested() = false;
  from.after = {};
  const auto report = Fetch(from);
  ASSERT_TRUE(report) << report.error().message;
  ExpectWhole(from);
  EXPECT_GE(report->resumed_bytes, 12 * kTestCell - CellsInFlight(SmallCells()));
}

TEST_F(FetchFileTest, RefusesASourceOfTheWrongSizeBeforeWriting) {
  const FarSource from(BytesFromSeed(5000));
  StatedContent stated = from.Stated();
  stated.size = 4999;
  const auto report = FetchFile(from, stated, *directory_, "file", SmallCells());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt);
  EXPECT_EQ(report.error().message,
            "far: blob: size: expected 4999 bytes as stated, found 5000 on the server "
            "(https://far/blob)");
  EXPECT_TRUE(Files().empty());
}

TEST_F(FetchFileTest, RefusesMalformedStatements) {
  const FarSource from(BytesFromSeed(3 * kTestCell));
  const auto message = [&](const std::function<void(StatedContent&, FetchOptions&)>& bend) {
    StatedContent stated = from.Stated(kTestCell);
    FetchOptions options = SmallCells();
    bend(stated, options);
    const auto report = FetchFile(from, stated, *directory_, "file", options);
    return report ? std::string("no error") : report.error().message;
  };
  EXPECT_THAT(message([](auto& stated, auto&) { stated.sha256 = "ABC"; }),
              HasSubstr("sha256: expected 64 hexadecimal digits, found \"ABC\""));
  EXPECT_THAT(message([](auto& stated, auto& options) {
                stated.size = uint64_t{1} << 62;
                options.cell_bytes = 1;
              }),
              HasSubstr("size: expected at most 4194304 cells of 1 bytes"));
  EXPECT_THAT(message([](auto&, auto& options) { options.cell_bytes = 0; }),
              HasSubstr("expected cells, pieces and connections, found 0"));
  EXPECT_TRUE(Files().empty());
}

TEST_F(FetchFileTest, WrongBytesAreFetchedAgainOnce) {
  FarSource from(BytesFromSeed(10 * kTestCell));
  Spoil(from, 5 * kTestCell + 7, 1);
  FetchOptions options = SmallCells();
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto report = Fetch(from, options);
  ASSERT_TRUE(report) << report.error().message;
  ExpectWhole(from);
  EXPECT_EQ(report->again_bytes, from.size());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("10 of 10 cells are fetched again"));
}

TEST_F(FetchFileTest, WithAChunkMapOnlyWrongCellsAreFetchedAgain) {
  FarSource from(BytesFromSeed(10 * kTestCell + 5));
  Spoil(from, 10 * kTestCell + 1, 1);
  FetchOptions options = SmallCells();
  std::string warning;
  options.warn = [&](const std::string& text) { warning = text; };
  const auto report = Fetch(from, options, kTestCell);
  ASSERT_TRUE(report) << report.error().message;
  ExpectWhole(from);
  EXPECT_EQ(report->again_bytes, 5u);
  EXPECT_THAT(warning, HasSubstr("1 of 11 cells is fetched again"));
  EXPECT_EQ(from.counts->bytes, from.size() + 5);
}

TEST_F(FetchFileTest, IgnoresAChunkMapWithOtherCells) {
  for (const bool shorter : {false, true}) {
    FarSource from(BytesFromSeed(10 * kTestCell));
    Spoil(from, 7, 1);
    StatedContent stated = from.Stated(shorter ? kTestCell : kTestCell / 2);
    if (shorter) stated.cells.sha256.pop_back();
    const auto report = FetchFile(from, stated, *directory_, "file", SmallCells());
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->again_bytes, from.size());
  }
}

TEST_F(FetchFileTest, LeavesNothingIfBytesStayWrong) {
  for (const uint64_t map : {uint64_t{0}, kTestCell}) {
    FarSource from(BytesFromSeed(10 * kTestCell));
    Spoil(from, 3, 1000);
    std::string damaged = from.bytes();
    damaged[3] = static_cast<char>(damaged[3] ^ 1);
    const auto report = Fetch(from, SmallCells(), map);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kCorrupt);
    EXPECT_EQ(report.error().message,
              Cat("far: blob: content: expected sha256:", Sha256Hex(from.bytes()),
                  ", found sha256:", Sha256Hex(damaged), "; discarded after 2 attempts"));
    EXPECT_EQ(report.error().hint, kCorruptOnServerHint);
    EXPECT_TRUE(Files().empty());
  }
}

TEST_F(FetchFileTest, IgnoresAChunkMapThatContradictsTheDigest) {
  FarSource from(BytesFromSeed(4 * kTestCell));
  FarSource damaged(BytesFromSeed(4 * kTestCell, 2));
  StatedContent stated = from.Stated();
  stated.cells = damaged.Stated(kTestCell).cells;
  // The first attempt brings the bytes of the map, which do not match the digest.
  from.after = [&](uint64_t offset, std::span<std::byte> out) {
    if (from.counts->bytes > 4 * kTestCell) return;
    std::memcpy(out.data(), damaged.bytes().data() + offset, out.size());
  };
  const auto report = FetchFile(from, stated, *directory_, "file", SmallCells(1));
  ASSERT_TRUE(report) << report.error().message;
  ExpectWhole(from);
  EXPECT_EQ(report->again_bytes, from.size());
}

TEST_F(FetchFileTest, TheHashDetectsAPartDamagedBetweenRuns) {
  for (const uint64_t map : {uint64_t{0}, kTestCell}) {
    FarSource from(BytesFromSeed(20 * kTestCell));
    FetchSome(from, 15 * kTestCell);
    std::string part = Get("file.part");
    part[2] = static_cast<char>(part[2] ^ 4);
    Put("file.part", part);
    const auto report = Fetch(from, SmallCells(), map);
    ASSERT_TRUE(report) << report.error().message;
    ExpectWhole(from);
    EXPECT_EQ(report->again_bytes, map > 0 ? kTestCell : from.size());
  }
}

TEST_F(FetchFileTest, RefetchesAPartOfTheWrongSize) {
  for (const std::string& part : {std::string("short"), BytesFromSeed(30 * kTestCell)}) {
    FarSource from(BytesFromSeed(20 * kTestCell));
    FetchSome(from, 15 * kTestCell);
    Put("file.part", part);
    std::string warning;
    FetchOptions options = SmallCells();
    options.warn = [&](const std::string& text) { warning = text; };
    const auto report = Fetch(from, options);
    ASSERT_TRUE(report) << report.error().message;
    ExpectWhole(from);
    EXPECT_EQ(report->resumed_bytes, 0u);
    EXPECT_THAT(warning, HasSubstr("file.part: size: expected 81920 bytes, found"));
    EXPECT_THAT(warning, HasSubstr("discarded and fetched again"));
  }
}

TEST_F(FetchFileTest, ForeignOrDamagedSideFilesDiscardThePart) {
  const FarSource other(BytesFromSeed(20 * kTestCell, 3));
  FarSource from(BytesFromSeed(20 * kTestCell));
  const std::string right = CellMap(from.Stated().sha256, from.size(), kTestCell).Text();
  const std::vector<std::string> texts = {
      "",
      "{",
      right.substr(0, right.size() / 2),
      std::string(100'000, '1'),
      CellMap(other.Stated().sha256, from.size(), kTestCell).Text(),
      CellMap(from.Stated().sha256, from.size() + 1, kTestCell).Text(),
      CellMap(from.Stated().sha256, from.size(), kTestCell / 2).Text()};
  for (const std::string& text : texts) {
    FetchSome(from, 15 * kTestCell);
    Put("file.cells", text);
    std::string warning;
    FetchOptions options = SmallCells();
    options.warn = [&](const std::string& one) { warning = one; };
    const auto report = Fetch(from, options);
    ASSERT_TRUE(report) << report.error().message;
    ExpectWhole(from);
    EXPECT_EQ(report->resumed_bytes, 0u) << text;
    EXPECT_THAT(warning, HasSubstr("file.cells: ")) << text;
  }
}

TEST_F(FetchFileTest, WritesNeitherThroughALinkNorIntoAHardLink) {
  FarSource from(BytesFromSeed(20 * kTestCell));
  Put("other", "other");
  std::filesystem::create_symlink(dir_ / "other", dir_ / "file.part");
  const auto refused = Fetch(from);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("expected a regular file, found a link"));
  std::filesystem::remove(dir_ / "file.part");
  std::filesystem::create_hard_link(dir_ / "other", dir_ / "file.part");
  std::filesystem::create_directory(dir_ / "file.cells");
  const auto report = Fetch(from);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(Get("other"), "other");
  EXPECT_EQ(Files(), (std::vector<std::string>{"file", "other"}));
}

TEST_F(FetchFileTest, ReportsProgressAndTheRehashingOfExistingCells) {
  FarSource from(BytesFromSeed(20 * kTestCell));
  FetchSome(from, 15 * kTestCell);
  FetchOptions options = SmallCells();
  std::vector<uint64_t> there, hashed;
  uint64_t of = 0;
  options.progress = [&](uint64_t bytes, uint64_t) { there.push_back(bytes); };
  options.rehashed = [&](uint64_t done, uint64_t total) {
    hashed.push_back(done);
    of = total;
  };
  const auto report = Fetch(from, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(there.front(), report->resumed_bytes);
  EXPECT_EQ(there.back(), from.size());
  EXPECT_TRUE(std::is_sorted(there.begin(), there.end()));
  EXPECT_EQ(hashed.back(), report->resumed_bytes);
  EXPECT_EQ(of, report->resumed_bytes);
}

TEST_F(FetchFileTest, SmallFilesUseOneConnectionAndLargeOnesUseAll) {
  FetchOptions options = SmallCells(4);
  options.parallel_from = 8 * kTestCell;
  FarSource small(BytesFromSeed(8 * kTestCell - 1));
  ASSERT_TRUE(Fetch(small, options));
  EXPECT_EQ(small.counts->most, 1u);
  // A read ends once four are in flight.
  FarSource large(BytesFromSeed(8 * kTestCell));
  std::mutex mutex;
  std::condition_variable all_there;
  large.before = [&](uint64_t, uint64_t) {
    std::unique_lock lock(mutex);
    all_there.notify_all();
    all_there.wait(lock, [&] { return large.counts->most >= 4; });
    return Ok();
  };
  ASSERT_TRUE(Fetch(large, options));
  EXPECT_EQ(large.counts->most, 4u);
}

}  // namespace
}  // namespace moepack::registry
