#include "libshard/base/files/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using testing::HasSubstr;

size_t FilesIn(const fs::path& directory) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(InputFile, ReadsAtAnOffset) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "0123456789");
  const Result<InputFile> file = InputFile::Open(dir / "f");
  ASSERT_TRUE(file);
  std::vector<std::byte> bytes(3);
  ASSERT_TRUE(file->ReadAt(4, bytes));
  EXPECT_EQ(bytes[0], std::byte{'4'});
  EXPECT_EQ(file->size(), 10u);
}

TEST(InputFile, ReadingPastTheEndNamesOffsetAndSizes) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "0123456789");
  const Result<InputFile> file = InputFile::Open(dir / "f");
  ASSERT_TRUE(file);
  std::vector<std::byte> bytes(8);
  const Status status = file->ReadAt(4, bytes);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("offset 4: expected 8 bytes, found 6"));
}

TEST(InputFile, RefusesAnythingButARegularFileWithoutBlocking) {
  const fixtures::TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(InputFile::Open(dir / "pipe").error().code, Code::kInvalidArgument);
  EXPECT_EQ(InputFile::Open(dir.path()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(InputFile::Open(dir / "absent").error().code, Code::kNotFound);
}

TEST(InputFile, NoticesThatAFileWasReplacedOrWritten) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "one");
  const Result<InputFile> file = InputFile::Open(dir / "f");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->CheckUnchanged());
  fixtures::WriteFile(dir / "g", "two");
  fs::rename(dir / "g", dir / "f");
  EXPECT_EQ(file->CheckUnchanged().error().code, Code::kCorrupt);
}

// Nodes that share a trunk come and go while it is read.
TEST(InputFile, NewAndRemovedHardLinksDoNotCountAsAChange) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "one");
  const Result<InputFile> file = InputFile::Open(dir / "f");
  ASSERT_TRUE(file);
  fs::create_hard_link(dir / "f", dir / "g");
  EXPECT_TRUE(file->CheckUnchanged());
  EXPECT_EQ(InputFile::Open(dir / "g")->identity(), file->identity());
  fs::remove(dir / "g");
  EXPECT_TRUE(file->CheckUnchanged());
}

TEST(AtomicFile, AppearsOnlyOnCommit) {
  const fixtures::TempDir dir;
  Result<AtomicFile> file = AtomicFile::Create(dir / "f");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write("half"));
  EXPECT_FALSE(fs::exists(dir / "f"));
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(fixtures::ReadFile(dir / "f"), "half");
  EXPECT_EQ(FilesIn(dir.path()), 1u);
}

TEST(AtomicFile, RefusesToReplaceADevice) {
  const Result<AtomicFile> file = AtomicFile::Create("/dev/null");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Code::kInvalidArgument);
  EXPECT_EQ(file.error().message,
            "/dev/null is a directory, device or pipe, which is never replaced");
}

// In a directory that others may write to, somebody can guess the name of the temporary file.
TEST(AtomicFile, DoesNotWriteThroughALinkWithTheNameOfItsTemporaryFile) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "victim", "precious");
  fs::create_symlink(dir / "victim", dir / ("out.tmp-" + std::to_string(getpid())));
  ASSERT_TRUE(WriteTextFile(dir / "out", "mine"));
  EXPECT_EQ(fixtures::ReadFile(dir / "victim"), "precious");
  EXPECT_EQ(fixtures::ReadFile(dir / "out"), "mine");
  EXPECT_FALSE(fs::is_symlink(dir / "out"));
}

TEST(AtomicFile, LeavesNothingBehindWithoutACommit) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "old");
  {
    Result<AtomicFile> file = AtomicFile::Create(dir / "f");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Write("new"));
  }
  EXPECT_EQ(fixtures::ReadFile(dir / "f"), "old");
  EXPECT_EQ(FilesIn(dir.path()), 1u);
}

TEST(AtomicFile, ANameThatWasTakenMeanwhileIsNotReplaced) {
  const fixtures::TempDir dir;
  for (const std::string kept : {"f.kept-1", "f.kept-2"}) {
    fs::remove(dir / "f");
    Result<AtomicFile> file = AtomicFile::Create(dir / "f", false);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Write(kept));
    fixtures::WriteFile(dir / "f", "precious");
    const Status refused = file->Commit();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().message,
              (dir / "f").string() + " already exists, and is not what this run wrote");
    EXPECT_EQ(refused.error().hint,
              "move it away, or replace it with --force; what was written is kept as " +
                  (dir / kept).string());
    EXPECT_EQ(fixtures::ReadFile(dir / "f"), "precious");
    EXPECT_EQ(fixtures::ReadFile(dir / kept), kept);
  }
  EXPECT_EQ(FilesIn(dir.path()), 3u);
}

TEST(AtomicFile, ADanglingLinkCountsAsTaken) {
  const fixtures::TempDir dir;
  fs::create_symlink("missing", dir / "f");
  EXPECT_FALSE(WriteTextFile(dir / "f", "mine", false));
  EXPECT_TRUE(fs::is_symlink(dir / "f"));
  EXPECT_FALSE(fs::exists(dir / "missing"));
}

TEST(AtomicFile, AFreeNameIsTakenWithoutReplacing) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(WriteTextFile(dir / "f", "mine", false));
  EXPECT_EQ(fixtures::ReadFile(dir / "f"), "mine");
  EXPECT_EQ(FilesIn(dir.path()), 1u);
}

TEST(TextFile, RefusesMoreThanTheLimit) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "12345");
  EXPECT_EQ(ReadTextFile(dir / "f", 5).value(), "12345");
  EXPECT_THAT(ReadTextFile(dir / "f", 4).error().message, HasSubstr("at most 4 bytes, found 5"));
}

TEST(WriteAt, AFullDiskIsAnInputOutputErrorWithAHint) {
  const int fd = open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  const std::vector<std::byte> bytes(16);
  const Status status = WriteAt(fd, "/dev/full", 0, bytes);
  close(fd);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("No space left on device"));
  EXPECT_THAT(status.error().hint, HasSubstr("free some space"));
}

TEST(FreeBytes, AnswersForAPathThatDoesNotExistYet) {
  const fixtures::TempDir dir;
  const Result<uint64_t> here = FreeBytes(dir.path());
  ASSERT_TRUE(here);
  EXPECT_GT(*here, 0u);
  EXPECT_TRUE(FreeBytes(dir / "a" / "b" / "c"));
}

}  // namespace
}  // namespace moepack
