#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/pack.h"
#include "libshard/parallel.h"

namespace shard {
namespace {

using testing::HasSubstr;

void Put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST(StagingDirectory, BecomesTheTargetWhenPublished) {
  const fixtures::TempDir dir;
  auto staging = StagingDirectory::Open(dir / "out", "id");
  ASSERT_TRUE(staging);
  EXPECT_EQ(staging->path(), dir / "out.partial/files");
  Put(staging->path() / "f", "x");
  EXPECT_FALSE(fs::exists(dir / "out"));
  ASSERT_TRUE(staging->Publish(false));
  EXPECT_TRUE(fs::exists(dir / "out/f"));
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
}

TEST(StagingDirectory, TakesATargetWithASlashAtTheEnd) {
  const fixtures::TempDir dir;
  auto staging = StagingDirectory::Open(fs::path((dir / "out").string() + "/"), "id");
  ASSERT_TRUE(staging);
  ASSERT_TRUE(staging->Publish(false));
  EXPECT_TRUE(fs::is_directory(dir / "out"));
}

TEST(StagingDirectory, ASecondWriterIsRefused) {
  const fixtures::TempDir dir;
  const auto first = StagingDirectory::Open(dir / "out", "id");
  ASSERT_TRUE(first);
  const auto second = StagingDirectory::Open(dir / "out", "id");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kIo);
  EXPECT_THAT(second.error().message, HasSubstr("another process is writing it"));
  EXPECT_TRUE(fs::exists(first->journal_path())) << "the first one's files stay";
}

TEST(StagingDirectory, NeverTouchesADirectoryThatIsNotItsOwn) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out.partial");
  Put(dir / "out.partial/precious", "data");
  const auto staging = StagingDirectory::Open(dir / "out", "id");
  ASSERT_FALSE(staging);
  EXPECT_EQ(staging.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(fs::exists(dir / "out.partial/precious"));
}

TEST(StagingDirectory, ReplacesATargetOnlyWhenTold) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  Put(dir / "out/old", "x");
  {
    auto staging = StagingDirectory::Open(dir / "out", "id");
    ASSERT_TRUE(staging);
    const Status refused = staging->Publish(false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(fs::exists(dir / "out/old"));
    Put(staging->path() / "new", "x");
    ASSERT_TRUE(staging->Publish(true));
  }
  EXPECT_FALSE(fs::exists(dir / "out/old"));
  EXPECT_TRUE(fs::exists(dir / "out/new"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
}

TEST(StagingDirectory, IsGoneAfterAnErrorAndStaysAfterAnInterrupt) {
  const fixtures::TempDir dir;
  { ASSERT_TRUE(StagingDirectory::Open(dir / "out", "id")); }
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
  {
    const auto staging = StagingDirectory::Open(dir / "out", "id");
    ASSERT_TRUE(staging);
    InterruptRequested() = true;
  }
  InterruptRequested() = false;
  EXPECT_TRUE(fs::exists(dir / "out.partial"));
}

TEST(StagingDirectory, ResumesTheSameRunOnly) {
  const fixtures::TempDir dir;
  const auto leave = [&](const std::string& identity) {
    auto staging = StagingDirectory::Open(dir / "out", identity);
    EXPECT_TRUE(staging);
    Put(staging->path() / identity, "x");
    staging->Keep();
    return staging->resumed();
  };
  EXPECT_FALSE(leave("one"));
  EXPECT_TRUE(leave("one"));
  EXPECT_FALSE(leave("two"));
  EXPECT_FALSE(fs::exists(dir / "out.partial/files/one")) << "what another run left is removed";
}

TEST(StagingDirectory, APlaceThatCannotBeWrittenIsAnInputOutputError) {
  const auto staging = StagingDirectory::Open("/proc/moepack-test/out", "id");
  ASSERT_FALSE(staging);
  EXPECT_EQ(staging.error().code, Code::kIo);
  EXPECT_THAT(staging.error().message, HasSubstr("/proc/moepack-test/out.partial: create: "));
}

}  // namespace
}  // namespace shard
