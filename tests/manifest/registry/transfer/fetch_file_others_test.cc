// The effect of other processes, kills and full disks on a file that is being fetched.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fixtures/sanitizers.h"
#include "libshard/base/text/text.h"
#include "tests/manifest/registry/transfer/fetch_sample.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class FetchFileOthersTest : public FetchSample {
 protected:
  std::filesystem::path Path(const std::string& name) const { return dir_ / name; }
};

TEST_F(FetchFileOthersTest, AKilledRunLosesAtMostTheCellsInFlight) {
  constexpr int kSeeds = 100;
  const FetchOptions options = SmallCells();
  int all_kills = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const Shared<ReadCounts> counts;
    std::mt19937 random(seed);
    FarSource from(BytesFromSeed(24 * kTestCell + random() % kTestCell, seed));
    from.counts = counts.get();
    int kills = 0;
    int status = -SIGKILL;
    while (status == -SIGKILL) {
      // Each run fetches up to 12 of 24 cells, so that there are several.
      auto left = std::make_shared<std::atomic<int64_t>>(random() % (12 * kTestCell));
      from.before = [&](uint64_t, uint64_t bytes) {
        if ((*left -= static_cast<int64_t>(bytes)) < 0) raise(SIGKILL);
        return Ok();
      };
      if (kills > 40) from.before = {};
      status = InChild([&] { return Fetch(from, options) ? 0 : 1; });
      kills += status == -SIGKILL ? 1 : 0;
      EXPECT_LE(counts->bytes, from.size() + static_cast<uint64_t>(kills) * CellsInFlight(options));
    }
    all_kills += kills;
    ASSERT_EQ(status, 0);
    ASSERT_EQ(Sha256Hex(Get("file")), Sha256Hex(from.bytes())) << "seed " << seed;
    // The killed writer of the side file may leave a temporary file.
    for (const std::string& name : Files())
      EXPECT_TRUE(name == "file" || TemporaryOf(name) == "file.cells") << name;
    for (const std::string& name : Files()) std::filesystem::remove(Path(name));
  }
  EXPECT_GT(all_kills, kSeeds);
}

TEST_F(FetchFileOthersTest, TwoProcessesMayFetchTheSameFileWithoutALock) {
  for (unsigned round = 0; round < 20; ++round) {
    const FarSource from(BytesFromSeed(40 * kTestCell, round));
    const Shared<std::atomic<int>> ready;
    const auto fetch = [&] {
      ++*ready.get();
      while (*ready.get() < 2) sched_yield();
      const auto report = Fetch(from);
      if (!report) std::fprintf(stderr, "%s\n", report.error().message.c_str());
      return report ? 0 : 1;
    };
    const int status = InChild([&] {
      const pid_t other = fork();
      if (other == 0) _exit(fetch());
      int ended = 1;
      const int own = fetch();
      waitpid(other, &ended, 0);
      return own == 0 && ended == 0 ? 0 : 1;
    });
    ASSERT_EQ(status, 0);
    ExpectWhole(from);
  }
}

TEST_F(FetchFileOthersTest, UsesAFileThatAnotherProcessFinished) {
  FarSource from(BytesFromSeed(20 * kTestCell));
  from.after = [&](uint64_t offset, std::span<std::byte>) {
    if (offset != 10 * kTestCell) return;
    Put("file.part", from.bytes());
    std::filesystem::rename(Path("file.part"), Path("file"));
  };
  const auto report = Fetch(from, SmallCells(1));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->by_another);
  ExpectWhole(from);
}

TEST_F(FetchFileOthersTest, RestartsAPartThatWasRemoved) {
  FarSource from(BytesFromSeed(20 * kTestCell));
  int left = 1;
  from.after = [&](uint64_t offset, std::span<std::byte>) {
    if (offset == 10 * kTestCell && left-- > 0) std::filesystem::remove(Path("file.part"));
  };
  const auto report = Fetch(from, SmallCells(1));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(Sha256Hex(Get("file")), Sha256Hex(from.bytes()));
}

TEST_F(FetchFileOthersTest, APartThatKeepsBeingRemovedIsAnError) {
  FarSource from(BytesFromSeed(2 * kTestCell));
  from.after = [&](uint64_t, std::span<std::byte>) { std::filesystem::remove(Path("file.part")); };
  const auto report = Fetch(from, SmallCells(1));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kIo);
  EXPECT_THAT(report.error().message,
              HasSubstr("file.part: expected the file that this run writes, found another"));
}

TEST_F(FetchFileOthersTest, AFileAboveTheSizeLimitIsAnErrorBeforeTheFirstByte) {
  const FarSource from(BytesFromSeed(20 * kTestCell));
  const int status = InChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {10 * kTestCell, 10 * kTestCell};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto report = Fetch(from);
    return !report && report.error().code == Code::kIo &&
                   report.error().message.find("take room") != std::string::npos &&
                   from.counts->bytes == 0
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

// In a separate mount namespace: a disk of 64 KiB that is mostly full.
int FetchToASmallDisk(const std::filesystem::path& place) {
  constexpr int kSkipped = 77;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return kSkipped;
  if (mount("tmpfs", place.c_str(), "tmpfs", 0, "size=262144") != 0) return kSkipped;
  if (!fixtures::WriteFile(place / "filler", std::string(200'000, 'x'))) return 1;
  const auto directory = InsideDirectory::Open(place);
  const FarSource from(BytesFromSeed(100'000));
  const auto fetch = [&] {
    return FetchFile(from, from.Stated(), *directory, "file", SmallCells());
  };
  const auto full = fetch();
  const std::string expected =
      Cat("file.part: free space: expected 100 kB, found 61.4 kB on ", place.string());
  if (full || full.error().code != Code::kIo || from.counts->bytes != 0) return 2;
  if (full.error().message.find(expected) == std::string::npos) {
    std::fprintf(stderr, "%s\n", full.error().message.c_str());
    return 3;
  }
  if (std::filesystem::exists(place / "file.part")) return 4;
  std::filesystem::remove(place / "filler");
  return fetch() && TextOf(*directory, "file") == from.bytes() ? 0 : 5;
}

TEST_F(FetchFileOthersTest, NoticesAFullDiskBeforeTheFirstByteAndSucceedsLater) {
  const int status = InChild([&] { return FetchToASmallDisk(dir_.path()); });
  if (status == 77) GTEST_SKIP() << "no file system can be mounted here: that needs root";
  EXPECT_EQ(status, 0);
}

// Kilobytes of a line of /proc/self/status.
uint64_t OwnMemory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::stoull(line.substr(key.size() + 1));
  return 0;
}

// A source of many bytes that takes no memory.
class EndlessSource final : public ByteSource {
 public:
  explicit EndlessSource(uint64_t size) : size_(size) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  const std::string& identity() const override { return name_; }
  bool far() const override { return true; }
  Status CheckUnchanged() const override { return Ok(); }
  Status ReadAt(uint64_t, std::span<std::byte> out) const override {
    std::memset(out.data(), 7, out.size());
    return Ok();
  }

 private:
  std::string name_ = "https://far/endless";
  uint64_t size_;
};

TEST_F(FetchFileOthersTest, FourConnectionsUseLessThanSixtyMebibytes) {
  if (fixtures::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer takes memory of its own";
  constexpr uint64_t kBytes = 128u << 20, kMost = 60u << 10;
  Sha256 sha256;
  const std::vector<std::byte> block(1u << 20, std::byte{7});
  for (uint64_t at = 0; at < kBytes; at += block.size()) sha256.Update(block);
  const StatedContent stated{"far: blob", sha256.Finish(), kBytes, {}};
  const int status = InChild([&] {
    std::ofstream("/proc/self/clear_refs") << "5";  // forgets the peak of the parent
    const uint64_t before = OwnMemory("VmRSS:");
    FetchOptions options;
    options.parallel_from = 0;
    const auto report = FetchFile(EndlessSource(kBytes), stated, *directory_, "file", options);
    const uint64_t peak = OwnMemory("VmHWM:");
    if (report && peak > before && peak - before < kMost) return 0;
    std::fprintf(stderr, "peak %lu kB, %lu kB before\n", peak, before);
    return 1;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace moepack::registry
