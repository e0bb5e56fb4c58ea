// StagingDirectory::PublishFiles: several files that are published beside each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/staging.h"

namespace moepack {
namespace {

using testing::ElementsAre;

TEST(PublishFiles, TheFirstFileOfASetIsPublishedLast) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::TempDir dir;
  const int status = fixtures::RunInChild([&] {
    std::vector<std::string> renames;
    const auto note = [&](const std::string& call) {
      if (call.starts_with("rename") && call.ends_with(".gguf")) renames.push_back(call);
      return fixtures::kLetItHappen;
    };
    auto staging = StagingDirectory::Start(dir / "m.gguf", "id");
    if (!staging || !staging->WriteText("1.gguf", "x") || !staging->WriteText("2.gguf", "x") ||
        !fixtures::WatchSystemCalls(dir.path(), note)) {
      return 2;
    }
    if (!staging->PublishFiles({"1.gguf", "2.gguf"}, false)) return 3;
    const std::vector<std::string> expected = {"rename m.gguf.partial/files/2.gguf -> 2.gguf",
                                               "rename m.gguf.partial/files/1.gguf -> 1.gguf"};
    return renames == expected ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

Status PublishSet(const fs::path& directory, bool replace = false) {
  SHARD_TRY(auto staging, StagingDirectory::Start(directory / "m.gguf", "id"));
  SHARD_CHECK(staging.WriteText("1.gguf", "first"));
  SHARD_CHECK(staging.WriteText("2.gguf", "second"));
  return staging.PublishFiles({"1.gguf", "2.gguf"}, replace);
}

uint64_t InodeOf(const fs::path& path) {
  struct stat info = {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_ino;
}

// As a run leaves it that ended after it had published the second file.
TEST(PublishFiles, CompletesASetAndLeavesWhatIsThereAlone) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "2.gguf", "second");
  const uint64_t there = InodeOf(dir / "2.gguf");
  const Status published = PublishSet(dir.path());
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_THAT(InsideDirectory::Open(dir.path())->ListFiles().value(),
              ElementsAre("1.gguf", "2.gguf"));
  EXPECT_EQ(fixtures::ReadFile(dir / "1.gguf"), "first");
  EXPECT_EQ(InodeOf(dir / "2.gguf"), there);
}

TEST(PublishFiles, RefusesAFileWithOtherBytesBeforeAnyNameIsGiven) {
  for (const std::string name : {"1.gguf", "2.gguf"}) {
    for (const std::string other : {"Second", "a longer text", ""}) {
      const fixtures::TempDir dir;
      fixtures::WriteFile(dir / name, other);
      const Status published = PublishSet(dir.path());
      ASSERT_FALSE(published);
      EXPECT_EQ(published.error().code, Code::kInvalidArgument);
      EXPECT_EQ(published.error().message,
                (dir / name).string() + " already exists, and is not what this run wrote");
      EXPECT_THAT(published.error().hint,
                  testing::StartsWith("move it away, or replace it with --force; what was written "
                                      "is kept in "));
      EXPECT_EQ(fixtures::ReadFile(dir / name), other);
      EXPECT_FALSE(fs::exists(dir / (name == "1.gguf" ? "2.gguf" : "1.gguf")));
      EXPECT_EQ(fixtures::ReadFile(dir / "m.gguf.partial/files/1.gguf"), "first");
    }
  }
}

TEST(PublishFiles, ALinkIsNotFollowed) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "elsewhere", "second");
  fs::create_symlink("elsewhere", dir / "2.gguf");
  EXPECT_FALSE(PublishSet(dir.path()));
  EXPECT_TRUE(fs::is_symlink(dir / "2.gguf"));
  EXPECT_FALSE(fs::exists(dir / "1.gguf"));
}

TEST(PublishFiles, TheFirstFileOfAnOlderSetIsGoneBeforeAnotherIsReplaced) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "1.gguf", "old");
  fixtures::WriteFile(dir / "2.gguf", "old");
  const int status = fixtures::RunInChild([&] {
    std::vector<std::string> calls;
    const auto note = [&](const std::string& call) {
      const bool counts = call.starts_with("rename") || call.starts_with("unlink");
      if (counts && call.ends_with(".gguf")) calls.push_back(call.substr(0, call.find(' ')));
      return fixtures::kLetItHappen;
    };
    auto staging = StagingDirectory::Start(dir / "m.gguf", "id");
    if (!staging || !staging->WriteText("1.gguf", "first") ||
        !staging->WriteText("2.gguf", "second") || !fixtures::WatchSystemCalls(dir.path(), note)) {
      return 2;
    }
    if (!staging->PublishFiles({"1.gguf", "2.gguf"}, true)) return 3;
    return calls == std::vector<std::string>{"unlink", "rename", "rename"} ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fixtures::ReadFile(dir / "1.gguf"), "first");
  EXPECT_EQ(fixtures::ReadFile(dir / "2.gguf"), "second");
}

TEST(PublishFiles, ADirectoryIsNotReplaced) {
  for (const std::string name : {"1.gguf", "2.gguf"}) {
    const fixtures::TempDir dir;
    fs::create_directories(dir / name / "kept");
    const Status published = PublishSet(dir.path(), true);
    ASSERT_FALSE(published);
    EXPECT_EQ(published.error().message, (dir / name).string() + " is a directory");
    EXPECT_TRUE(fs::is_directory(dir / name / "kept"));
  }
}

}  // namespace
}  // namespace moepack
