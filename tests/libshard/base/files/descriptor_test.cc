#include "libshard/base/files/descriptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <new>

#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"

namespace moepack {
namespace {

using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

// The error of `call` for somebody without any rights; "" if it cannot be tried.
std::string AsNobody(const fs::path& directory, const std::function<Error()>& call) {
  const fs::path answer = directory / "answer";
  std::ofstream(answer) << "";
  fs::permissions(answer, fs::perms::all);
  fs::permissions(directory, fs::perms::all);
  const int status = fixtures::RunInChild([&] {
    if (getuid() == 0 && setuid(kNobody) != 0) return 1;
    const Error error = call();
    std::ofstream(answer) << error.message << "\n";
    return error.code == Code::kIo ? 0 : 2;
  });
  EXPECT_NE(status, 2) << "a missing permission is an input/output error";
  return fixtures::ReadFile(answer);
}

TEST(IoError, ThrowsWhereTheSystemLacksMemory) {
  EXPECT_THROW((void)IoError("some/file", "list", ENOMEM), std::bad_alloc);
}

TEST(IoError, NamesTheDirectoryThatMayNotBeEntered) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "closed/deep");
  std::ofstream(dir / "closed/deep/file") << "x";
  fs::permissions(dir / "closed", fs::perms::none);
  const std::string said =
      AsNobody(dir.path(), [&] { return InputFile::Open(dir / "closed/deep/file").error(); });
  EXPECT_THAT(said, HasSubstr("Permission denied: the directory " + (dir / "closed").string() +
                              " cannot be entered: no search permission"));
  fs::permissions(dir / "closed", fs::perms::all);
}

TEST(IoError, NamesAnUnreadableFileAndAnUnwritableDirectory) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "secret") << "x";
  fs::permissions(dir / "secret", fs::perms::none);
  fs::create_directories(dir / "fixed");
  fs::permissions(dir / "fixed", fs::perms(0555));
  EXPECT_THAT(AsNobody(dir.path(), [&] { return InputFile::Open(dir / "secret").error(); }),
              HasSubstr((dir / "secret").string() + " cannot be read: no read permission"));
  EXPECT_THAT(AsNobody(dir.path(), [&] { return AtomicFile::Create(dir / "fixed/new").error(); }),
              HasSubstr("the directory " + (dir / "fixed").string() +
                        " cannot be written: no write permission"));
}

TEST(IoError, AFileSizeLimitErrorHasAHint) {
  EXPECT_THAT(IoError("f", "write", EFBIG).hint, HasSubstr("ulimit -f"));
  EXPECT_THAT(IoError("f", "write", ENOSPC).hint, HasSubstr("free some space"));
}

TEST(IsThere, DistinguishesAbsentFromUnreadable) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "file") << "x";
  fs::create_symlink("file", dir / "link");
  fs::create_symlink("../blobs/missing", dir / "dangling");
  fs::create_symlink("loop", dir / "loop");
  EXPECT_TRUE(IsThere(dir / "file").value());
  EXPECT_TRUE(IsThere(dir / "link").value());
  EXPECT_FALSE(IsThere(dir / "nothing").value());
  EXPECT_FALSE(IsThere(dir / "file/below").value());
  const auto dangling = IsThere(dir / "dangling");
  ASSERT_FALSE(dangling);
  EXPECT_EQ(dangling.error().code, Code::kNotFound);
  EXPECT_THAT(dangling.error().message,
              HasSubstr("dangling: expected a file, found a link to nothing: \"../blobs/missing"));
  const auto loop = IsThere(dir / "loop");
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code, Code::kIo);
}

TEST(IsDirectory, FollowsLinksAndRefusesWhatCannotBeLookedUp) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "file") << "x";
  fs::create_directory(dir / "folder");
  fs::create_symlink("folder", dir / "link");
  fs::create_symlink("missing", dir / "dangling");
  fs::create_symlink("loop", dir / "loop");
  EXPECT_TRUE(IsDirectory(dir / "folder").value());
  EXPECT_TRUE(IsDirectory(dir / "link").value());
  EXPECT_FALSE(IsDirectory(dir / "file").value());
  EXPECT_FALSE(IsDirectory(dir / "file/below").value());
  EXPECT_FALSE(IsDirectory(dir / "dangling").value());
  const auto loop = IsDirectory(dir / "loop");
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code, Code::kIo);
  EXPECT_THAT(loop.error().message, HasSubstr((dir / "loop").string() + ": look it up: "));
}

TEST(IsSameFile, FollowsLinksAndRefusesWhatCannotBeLookedUp) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "file") << "x";
  std::ofstream(dir / "copy") << "x";
  fs::create_hard_link(dir / "file", dir / "hard");
  fs::create_symlink("file", dir / "link");
  fs::create_symlink("loop", dir / "loop");
  EXPECT_TRUE(IsSameFile(dir / "file", dir / "file").value());
  EXPECT_TRUE(IsSameFile(dir / "file", dir / "hard").value());
  EXPECT_TRUE(IsSameFile(dir / "link", dir / "file").value());
  EXPECT_FALSE(IsSameFile(dir / "file", dir / "copy").value());
  EXPECT_FALSE(IsSameFile(dir / "file", dir / "nothing").value());
  EXPECT_FALSE(IsSameFile(dir / "nothing", dir / "nothing").value());
  EXPECT_FALSE(IsSameFile(std::string(5000, '1'), dir / "file").value());
  const auto loop = IsSameFile(dir / "file", dir / "loop");
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code, Code::kIo);
}

TEST(IsTaken, CountsDanglingLinksAndRefusesWhatCannotBeLookedUp) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "file") << "x";
  fs::create_symlink("missing", dir / "dangling");
  fs::create_symlink("loop", dir / "loop");
  EXPECT_TRUE(IsTaken(dir / "file").value());
  EXPECT_TRUE(IsTaken(dir / "dangling").value());
  EXPECT_FALSE(IsTaken(dir / "nothing").value());
  EXPECT_FALSE(IsTaken(dir / "file/below").value());
  const auto loop = IsTaken(dir / "loop/below");
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code, Code::kIo);
}

}  // namespace
}  // namespace moepack
