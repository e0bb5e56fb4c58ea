#include "libshard/remote/range_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kMegabyte = 1'000'000;

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class RemoteRangeCache : public testing::Test {
 protected:
  std::shared_ptr<RangeCache> Open(uint64_t limit = kMegabyte) {
    return RangeCache::Open(path_, limit,
                            [this](const std::string& text) { warnings_.push_back(text); });
  }
  CachedFile File(uint64_t limit = kMegabyte, const std::string& content = "ETag \"1\"") {
    return {Open(limit), "https://host/a", content, text_.size()};
  }
  // '.' marks bytes that Take leaves out.
  std::string Take(CachedFile& file, uint64_t offset, uint64_t length) {
    std::string out(length, '.');
    missing_ = file.Take(offset, std::as_writable_bytes(std::span(out)));
    return out;
  }
  void Keep(CachedFile& file, uint64_t offset, uint64_t length) const {
    file.Keep(offset, AsBytes(text_.substr(offset, length)));
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(path_))
      if (!entry.is_directory()) files.push_back(entry.path());
    return files;
  }
  uint64_t BytesInAll() const {
    uint64_t bytes = 0;
    for (const fs::path& file : Files()) bytes += fs::file_size(file);
    return bytes;
  }
  static mode_t ModeOf(const fs::path& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  fixtures::TempDir dir_;
  fs::path path_ = dir_ / "cache";
  std::string text_ = [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += static_cast<char>('A' + i % 26);
    return text;
  }();
  std::vector<CachedRange> missing_;
  std::vector<std::string> warnings_;
};

TEST_F(RemoteRangeCache, TakesCachedBytesAndListsTheMissingRanges) {
  {
    CachedFile file = File();
    Keep(file, 100, 50);
    Keep(file, 150, 50);
    Keep(file, 300, 10);
  }
  CachedFile file = File();
  EXPECT_EQ(Take(file, 100, 100), text_.substr(100, 100));
  EXPECT_THAT(missing_, IsEmpty());
  EXPECT_EQ(Take(file, 120, 20), text_.substr(120, 20));
  const std::string with_gaps = Take(file, 90, 300);
  EXPECT_THAT(missing_,
              ElementsAre(CachedRange{90, 10}, CachedRange{200, 100}, CachedRange{310, 80}));
  EXPECT_EQ(with_gaps.substr(10, 100), text_.substr(100, 100));
  EXPECT_EQ(with_gaps.substr(210, 10), text_.substr(300, 10));
  EXPECT_TRUE(file.Covers(110, 90));
  EXPECT_FALSE(file.Covers(110, 91));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RemoteRangeCache, TakesOverlappingRangesFromTheLongerOnes) {
  CachedFile file = File();
  Keep(file, 100, 100);
  Keep(file, 120, 10);  // inside: not needed
  Keep(file, 150, 100);
  Keep(file, 50, 60);
  Keep(file, 40, 300);  // around all of them
  Keep(file, 400, 10);
  Keep(file, 400, 20);
  EXPECT_EQ(Take(file, 40, 300), text_.substr(40, 300));
  EXPECT_THAT(missing_, IsEmpty());
  EXPECT_EQ(Take(file, 400, 20), text_.substr(400, 20));
  EXPECT_THAT(missing_, IsEmpty());
}

TEST_F(RemoteRangeCache, HasNothingForAnotherContent) {
  CachedFile file = File();
  Keep(file, 0, 100);
  CachedFile other = File(kMegabyte, "ETag \"2\"");
  Take(other, 0, 100);
  EXPECT_THAT(missing_, ElementsAre(CachedRange{0, 100}));
  EXPECT_TRUE(Open()->Knows("https://host/a"));
  EXPECT_FALSE(Open()->Knows("https://host/b"));
}

TEST_F(RemoteRangeCache, RemovesDamagedTruncatedAndForeignFiles) {
  const auto flip = [](const fs::path& path) {
    std::string text = fixtures::ReadFile(path);
    text[text.size() - 7] ^= 1;
    std::ofstream(path, std::ios::binary) << text;
  };
  const auto cut = [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 1); };
  const auto cut_early = [](const fs::path& path) { fs::resize_file(path, 3); };
  const auto link = [&](const fs::path& path) {
    fs::rename(path, dir_ / "moved");
    fs::create_symlink(dir_ / "moved", path);
  };
  const auto pipe = [&](const fs::path& path) {
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  };
  const std::vector<std::function<void(const fs::path&)>> ways = {flip, cut, cut_early, link, pipe};
  for (const auto& spoil : ways) {
    CachedFile file = File();
    Keep(file, 200, 1000);
    ASSERT_THAT(Files(), SizeIs(1));
    spoil(Files()[0]);
    Take(file, 200, 1000);
    EXPECT_THAT(missing_, ElementsAre(CachedRange{200, 1000}));
    EXPECT_THAT(Files(), IsEmpty());
    Keep(file, 200, 1000);
    EXPECT_EQ(Take(file, 200, 1000), text_.substr(200, 1000));
    fs::remove_all(path_);
  }
  EXPECT_TRUE(fs::exists(dir_ / "moved"));  // the target of the link
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RemoteRangeCache, IgnoresAMisplacedFile) {
  CachedFile file = File();
  Keep(file, 0, 100);
  const fs::path at = Files()[0];
  fs::rename(at, at.parent_path() / "100-100");
  CachedFile again = File();
  Take(again, 100, 100);
  EXPECT_THAT(missing_, ElementsAre(CachedRange{100, 100}));
}

TEST_F(RemoteRangeCache, EvictsTheLeastRecentlyUsedRanges) {
  CachedFile file = File(10000);
  for (uint64_t at = 0; at < 9000; at += 1000) {
    Keep(file, at, 1000);
    EXPECT_LE(BytesInAll(), 10000u);
  }
  usleep(20000);  // file times have the resolution of the kernel's clock
  Take(file, 0, 1000);
  for (uint64_t at = 9000; at < 14000; at += 1000) {
    Keep(file, at, 1000);
    EXPECT_LE(BytesInAll(), 10000u);
  }
  EXPECT_EQ(Take(file, 0, 1000), text_.substr(0, 1000));
  EXPECT_THAT(missing_, IsEmpty());
  int gone = 0;
  for (uint64_t at = 1000; at < 9000; at += 1000) {
    Take(file, at, 1000);
    gone += missing_.empty() ? 0 : 1;
  }
  EXPECT_GE(gone, 5);
  EXPECT_EQ(Take(file, 13000, 1000), text_.substr(13000, 1000));
  Keep(file, 20000, 20000);  // larger than the cache
  EXPECT_FALSE(file.Covers(20000, 1));
  const CachedFile smaller = File(3000);
  EXPECT_LE(BytesInAll(), 3000u);
}

TEST_F(RemoteRangeCache, SeveralFilesTogetherStayBelowTheLimit) {
  {
    CachedFile one = File(20000), two = File(20000, "ETag \"2\"");
    for (uint64_t at = 0; at < 40000; at += 1000) {
      Keep(one, at, 1000);
      Keep(two, at, 1000);
    }
  }
  EXPECT_LE(BytesInAll(), 20000u);
  EXPECT_GT(BytesInAll(), 15000u);
}

TEST_F(RemoteRangeCache, ConcurrentWritersStayBelowTheLimit) {
  CachedFile file = File(10000);
  EXPECT_TRUE(ParallelFor(200, 8, [&](size_t i) -> Status {
    Keep(file, i % 20 * 3000, 3000);
    return Ok();
  }));
  EXPECT_LE(BytesInAll(), 10000u);
  EXPECT_GT(BytesInAll(), 3000u);
}

TEST_F(RemoteRangeCache, ItMayBeDeletedAtAnyTime) {
  CachedFile file = File();
  Keep(file, 0, 100);
  fs::remove_all(path_);
  Take(file, 0, 100);
  EXPECT_THAT(missing_, ElementsAre(CachedRange{0, 100}));
  Keep(file, 0, 100);
  EXPECT_EQ(Take(file, 0, 100), text_.substr(0, 100));
  for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry);
  Keep(file, 200, 100);
  EXPECT_EQ(Take(file, 200, 100), text_.substr(200, 100));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RemoteRangeCache, WarnsOnceIfItCannotWrite) {
  std::ofstream(path_) << "a file in the way";
  EXPECT_EQ(Open(), nullptr);
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("/cache: "));
  EXPECT_THAT(warnings_[0], HasSubstr("continuing without the cache"));
  warnings_.clear();
  fs::remove(path_);
  CachedFile file = File();
  const std::string folder =
      CacheDirectory::FolderName("https://host/a", Cat("ETag \"1\"", "\n", text_.size()));
  fs::create_directory_symlink(dir_.path(), path_ / folder);
  Keep(file, 0, 100);
  Keep(file, 100, 100);
  Take(file, 0, 100);
  EXPECT_THAT(missing_, SizeIs(1));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("nothing more is kept in the cache"));
}

TEST_F(RemoteRangeCache, RefusesADirectoryThatOthersCanWrite) {
  fs::create_directory(path_);
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  EXPECT_EQ(Open(), nullptr);
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("expected a directory that only you can write, found one "
                                      "that others can write, too"));
  EXPECT_THAT(warnings_[0], HasSubstr("chmod go-w "));
}

TEST_F(RemoteRangeCache, OnlyTheUserMayReadIt) {
  CachedFile file = File();
  Keep(file, 0, 100);
  EXPECT_EQ(ModeOf(path_), 0700u);
  EXPECT_EQ(ModeOf(Files()[0].parent_path()), 0700u);
  EXPECT_EQ(ModeOf(Files()[0]), 0600u);
}

TEST_F(RemoteRangeCache, LeavesForeignFilesAlone) {
  fs::create_directories(path_ / "notes");
  std::ofstream(path_ / "notes" / "0-1") << "mine";
  std::ofstream(path_ / "0123") << "mine, too";
  CachedFile file = File(2000);
  for (uint64_t at = 0; at < 9000; at += 1000) Keep(file, at, 1000);
  EXPECT_TRUE(fs::exists(path_ / "notes" / "0-1"));
  EXPECT_TRUE(fs::exists(path_ / "0123"));
}

TEST_F(RemoteRangeCache, RemovesTheFilesOfAKilledWriterAfterAnHour) {
  CachedFile file = File();
  Keep(file, 0, 100);
  const fs::path folder = Files()[0].parent_path();
  for (const char* name : {"5-10.tmp-1-1", "6-10.tmp-1-2"}) std::ofstream(folder / name) << "half";
  fs::last_write_time(folder / "5-10.tmp-1-1",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  Open();
  EXPECT_FALSE(fs::exists(folder / "5-10.tmp-1-1"));
  EXPECT_TRUE(fs::exists(folder / "6-10.tmp-1-2"));
}

}  // namespace
}  // namespace moepack::remote
