#include "libshard/base/files/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/memory_tree.h"

namespace moepack {
namespace {

using testing::HasSubstr;

constexpr uintmax_t kPage = 4096;

Result<MappedFile> Map(const fs::path& path) {
  SHARD_TRY(const InputFile file, InputFile::Open(path));
  return MappedFile::Map(file);
}

// Counts the bytes that are not zero, which reads every page.
size_t CountNonZero(std::span<const std::byte> bytes) {
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(),
                                           [](std::byte byte) { return byte != std::byte{0}; }));
}

TEST(MappedFile, MapsTheBytesAndAcceptsEmptyFiles) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "abc");
  fixtures::WriteFile(dir / "empty", "");
  const Result<MappedFile> mapped = Map(dir / "f");
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->text(), "abc");
  const Result<MappedFile> empty = Map(dir / "empty");
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->bytes().empty());
  EXPECT_TRUE(CheckMappedFiles());
}

TEST(MappedFile, HoldsTheBytesOfASourceThatIsNotAFile) {
  const Result<MappedFile> held = MappedFile::Map(MemorySource("memory", "abc"));
  ASSERT_TRUE(held);
  EXPECT_EQ(held->text(), "abc");
  EXPECT_TRUE(CheckMappedFiles());
}

TEST(MappedFile, KeepsItsBytesWhenTheFileIsReplaced) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "old text");
  const Result<MappedFile> mapped = Map(dir / "f");
  ASSERT_TRUE(mapped);
  ASSERT_TRUE(WriteTextFile(dir / "f", "new"));
  EXPECT_EQ(mapped->text(), "old text");
  EXPECT_TRUE(CheckMappedFiles());
}

TEST(MappedFile, ReadsZerosAndReportsAnErrorWhereTheFileWasTruncated) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", std::string(16 * kPage, 'a'));
  {
    const Result<MappedFile> mapped = Map(dir / "f");
    ASSERT_TRUE(mapped);
    EXPECT_TRUE(CheckMappedFiles());
    fs::resize_file(dir / "f", 5 * kPage);
    EXPECT_EQ(CountNonZero(mapped->bytes()), 5 * kPage);
    const Status status = CheckMappedFiles();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    EXPECT_EQ(status.error().message,
              (dir / "f").string() + ": the file was cut while it was read");
  }
  EXPECT_TRUE(CheckMappedFiles()) << "a closed mapping no longer counts";
}

TEST(MappedFile, NoticesATruncationInsideTheLastPage) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", std::string(kPage, 'a'));
  const Result<MappedFile> mapped = Map(dir / "f");
  ASSERT_TRUE(mapped);
  fs::resize_file(dir / "f", kPage - 1);
  EXPECT_EQ(CheckMappedFiles().error().code, Code::kCorrupt);
}

// Truncated and grown again, as by a download that starts over: the pages were zeros for a while.
TEST(MappedFile, RemembersAPageThatVanished) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", std::string(2 * kPage, 'a'));
  const Result<MappedFile> mapped = Map(dir / "f");
  ASSERT_TRUE(mapped);
  fs::resize_file(dir / "f", 0);
  EXPECT_EQ(CountNonZero(mapped->bytes()), 0u);
  fs::resize_file(dir / "f", 2 * kPage);
  const Status status = CheckMappedFiles();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("a page of the file could not be read"));
}

TEST(MappedFile, SurvivesTruncationUnderSeveralThreads) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", std::string(512 * kPage, 'a'));
  const Result<MappedFile> mapped = Map(dir / "f");
  ASSERT_TRUE(mapped);
  fs::resize_file(dir / "f", 0);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        // Backwards, so that nearly every page faults.
        for (size_t page = 512; page-- > 0;) {
          if (page % 4 != i) continue;
          EXPECT_EQ(mapped->bytes()[page * kPage], std::byte{0});
        }
      });
    }
  }
  EXPECT_FALSE(CheckMappedFiles());
}

TEST(MappedFile, ReusesTheRecordsOfClosedMappings) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "abc");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Map(dir / "f"));
  EXPECT_TRUE(CheckMappedFiles());
}

TEST(MappedFileDeathTest, ABusErrorElsewhereStillEndsTheProcess) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", std::string(kPage, 'a'));
  const Result<MappedFile> ours = Map(dir / "f");
  ASSERT_TRUE(ours);
  const Result<InputFile> file = InputFile::Open(dir / "f");
  ASSERT_TRUE(file);
  void* const foreign = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, *file->descriptor(), 0);
  ASSERT_NE(foreign, MAP_FAILED);
  fs::resize_file(dir / "f", 0);
  const auto read = [&] { return *static_cast<const volatile char*>(foreign); };
  EXPECT_DEATH(static_cast<void>(read()), "");
  munmap(foreign, kPage);
}

}  // namespace
}  // namespace moepack
