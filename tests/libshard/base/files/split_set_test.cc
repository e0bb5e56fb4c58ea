// Several files that are published beside each other, and runs that end in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/staging.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SplitSet, TheFirstFileOfASetIsPublishedLast) {
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

// A run for a set of two files that ended after it had published the second one.
void PublishHalfASet(const fs::path& directory, const std::string& second) {
  auto staging = StagingDirectory::Start(directory / "m.gguf", "id");
  ASSERT_TRUE(staging);
  ASSERT_TRUE(staging->WriteText("1.gguf", "first"));
  staging->Keep();
  fixtures::WriteFile(directory / "2.gguf", second);
}

Status PublishSet(const fs::path& directory) {
  SHARD_TRY(auto staging, StagingDirectory::Start(directory / "m.gguf", "id"));
  SHARD_CHECK(staging.WriteText("1.gguf", "first"));
  SHARD_CHECK(staging.WriteText("2.gguf", "second"));
  return staging.PublishFiles({"1.gguf", "2.gguf"}, false);
}

TEST(SplitSet, ASetWhosePublishingEndedIsCompleted) {
  const fixtures::TempDir dir;
  PublishHalfASet(dir.path(), "second");
  const Status free = StagingDirectory::CheckFree(dir / "m.gguf", {"1.gguf", "2.gguf"});
  EXPECT_TRUE(free) << free.error().message;
  const Status published = PublishSet(dir.path());
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_THAT(InsideDirectory::Open(dir.path())->ListFiles().value(),
              ElementsAre("1.gguf", "2.gguf"));
  EXPECT_EQ(fixtures::ReadFile(dir / "1.gguf"), "first");
}

TEST(SplitSet, AFileWithOtherBytesIsNeitherReplacedNorLeftInAHalfWrittenSet) {
  for (const std::string other : {"Second", "a longer text"}) {
    const fixtures::TempDir dir;
    PublishHalfASet(dir.path(), other);
    const Status published = PublishSet(dir.path());
    ASSERT_FALSE(published);
    EXPECT_EQ(published.error().code, Code::kInvalidArgument);
    EXPECT_EQ(published.error().message, (dir / "2.gguf").string() + " already exists");
    EXPECT_THAT(published.error().hint, HasSubstr("--force replaces it, and -o names another"));
    EXPECT_EQ(fixtures::ReadFile(dir / "2.gguf"), other);
    EXPECT_FALSE(fs::exists(dir / "1.gguf"));
    EXPECT_EQ(fixtures::ReadFile(dir / "m.gguf.partial/files/1.gguf"), "first");
  }
}

TEST(SplitSet, ASetIsRefusedIfItsFirstFileIsThereOrNoRunEnded) {
  const fixtures::TempDir dir;
  const auto check = [&] {
    return StagingDirectory::CheckFree(dir / "m.gguf", {"1.gguf", "2.gguf"});
  };
  EXPECT_TRUE(check());
  fixtures::WriteFile(dir / "2.gguf", "second");
  const Status alone = check();
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, Code::kInvalidArgument);
  EXPECT_EQ(alone.error().message, (dir / "2.gguf").string() + " already exists");

  PublishHalfASet(dir.path(), "second");
  EXPECT_TRUE(check());
  fixtures::WriteFile(dir / "1.gguf", "first");
  const Status first = check();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().message, (dir / "1.gguf").string() + " already exists");
}

TEST(SplitSet, ALinkInPlaceOfAFileOfASetIsNotFollowed) {
  const fixtures::TempDir dir;
  PublishHalfASet(dir.path(), "second");
  fs::rename(dir / "2.gguf", dir / "elsewhere");
  fs::create_symlink("elsewhere", dir / "2.gguf");
  const Status published = PublishSet(dir.path());
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().message, (dir / "2.gguf").string() + " already exists");
  EXPECT_TRUE(fs::is_symlink(dir / "2.gguf"));
}

}  // namespace
}  // namespace moepack
