#include "libshard/base/files/publish_inside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fixtures/memory_temp.h"
#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// In this test, an output with a file "mark" is ours, and others read one with a file "head".
OwnOutput OwnWithMark() {
  const auto check = [](const InsideDirectory& directory) -> Status {
    SHARD_TRY(const InsideDirectory::Kind kind, directory.KindOf("mark"));
    if (kind == InsideDirectory::Kind::kFile) return Ok();
    return Error{Code::kInvalidArgument, "not ours"};
  };
  return {check, {"mark", "head"}};
}

std::vector<std::string> AllNames(const fs::path& directory) {
  return InsideDirectory::Open(directory).value().ListFiles().value();
}

ino_t InodeOfDirectory(const fs::path& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_ino;
}

bool WriteOutput(const fs::path& target, const std::string& text, bool replace) {
  auto staging = StagingDirectory::Start(target, text, OwnWithMark());
  return staging && staging->WriteText("mark", text) && staging->WriteText("deep/er/file", text) &&
         staging->WriteText(text, text) && staging->Publish(replace);
}

// The same with files that are those of the output before, as a pull takes them: hard links.
bool WriteSharing(const fs::path& target, const std::string& text, bool replace) {
  auto staging = StagingDirectory::Start(target, text, OwnWithMark());
  if (!staging) return false;
  for (const std::string name : {"head", "deep/shared"}) {
    staging->Expect(name);
    const fs::path staged = staging->path() / name;
    if (fs::exists(staged)) continue;
    fs::create_directories(staged.parent_path());
    std::error_code none;
    fs::create_hard_link(target / name, staged, none);
    if (none && !staging->WriteText(name, "same")) return false;
  }
  return staging->WriteText("mark", text) && staging->WriteText("deep/er/file", text) &&
         staging->WriteText(text, text) && staging->Publish(replace);
}

// What makes a run for an output that is not empty write inside it, as a mount point would.
void LeaveScratch(const fs::path& target) {
  fs::create_directories(target / ".moepack.test.partial");
}

TEST(PublishInside, AnEmptyDirectoryIsAFreeOutputAndIsNotReplaced) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  fs::permissions(dir / "out", fs::perms::owner_all);
  const ino_t before = InodeOfDirectory(dir / "out");
  {
    auto staging = StagingDirectory::Start(dir / "out", "id", OwnWithMark());
    ASSERT_TRUE(staging) << staging.error().message;
    EXPECT_EQ(staging->path(), dir / "out/.moepack.partial/files");
    EXPECT_TRUE(*IsFreeOutput(dir / "out")) << "it is, while it is written";
    ASSERT_TRUE(staging->WriteText("deep/file", "x"));
    ASSERT_TRUE(staging->Publish(false));
  }
  EXPECT_THAT(AllNames(dir.path()), ElementsAre("out/deep/file"));
  EXPECT_FALSE(fs::exists(dir / "out/.moepack.partial"));
  EXPECT_EQ(InodeOfDirectory(dir / "out"), before);
  EXPECT_FALSE(*IsFreeOutput(dir / "out"));
}

TEST(PublishInside, AnErrorLeavesAnEmptyDirectoryEmpty) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  { ASSERT_TRUE(StagingDirectory::Start(dir / "out", "id", OwnWithMark())); }
  EXPECT_TRUE(fs::is_empty(dir / "out"));
}

// tests/tools/rules/mounted_outputs_test.cc has that of a mount point.
TEST(PublishInside, ALostAndFoundOfAnOrdinaryDirectoryIsAPartOfIt) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out/lost+found");
  fixtures::WriteFile(dir / "out/lost+found/f", "precious");
  EXPECT_FALSE(*IsFreeOutput(dir / "out"));
  const InsideDirectory out = InsideDirectory::Open(dir / "out").value();
  EXPECT_THAT(ListOutputFiles(out).value(), ElementsAre("lost+found/f"));
}

TEST(PublishInside, NoFileOfAnOutputLiesWhereOthersKeepTheirs) {
  for (const char* name : {"lost+found", "lost+found/f", ".moepack.partial/files/mark"})
    EXPECT_TRUE(IsKeptName(name)) << name;
  for (const char* name : {"lost+founder", "a/lost+found", ".moepackage", "groups/000/x"})
    EXPECT_FALSE(IsKeptName(name)) << name;
}

TEST(PublishInside, TheCurrentDirectoryIsReplacedFileByFile) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(WriteOutput(dir / "out", "old", false));
  EXPECT_FALSE(*IsWrittenInside(dir / "out"));
  const ino_t before = InodeOfDirectory(dir / "out");
  const int status = fixtures::RunInChild([&] {
    fs::current_path(dir / "out");
    return *IsWrittenInside(".") && WriteOutput(".", "new", true) && fs::exists("mark") ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(InodeOfDirectory(dir / "out"), before);
  EXPECT_THAT(AllNames(dir / "out"), ElementsAre("deep/er/file", "mark", "new"));
}

TEST(PublishInside, ADirectoryThatHoldsSomethingOrALinkIsNotFree) {
  const fixtures::TempDir dir;
  EXPECT_TRUE(*IsFreeOutput(dir / "none"));
  fs::create_directories(dir / "out/empty");
  EXPECT_FALSE(*IsFreeOutput(dir / "out"));
  fs::create_directories(dir / "real");
  fs::create_directory_symlink("real", dir / "link");
  EXPECT_FALSE(*IsFreeOutput(dir / "link"));
  fixtures::WriteFile(dir / "file", "x");
  EXPECT_FALSE(*IsFreeOutput(dir / "file"));
}

TEST(PublishInside, WhatAppearsMeanwhileIsNotReplacedAndTheWorkIsKept) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  {
    auto staging = StagingDirectory::Start(dir / "out", "id", OwnWithMark());
    ASSERT_TRUE(staging);
    ASSERT_TRUE(staging->WriteText("mark", "new"));
    fixtures::WriteFile(dir / "out/precious", "theirs");
    const Status refused = staging->Publish(false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("already exists, and holds \"precious\""));
    EXPECT_THAT(refused.error().hint, HasSubstr((dir / "out/.moepack.partial").string()));
  }
  EXPECT_EQ(fixtures::ReadFile(dir / "out/precious"), "theirs");
  EXPECT_EQ(fixtures::ReadFile(dir / "out/.moepack.partial/files/mark"), "new");
}

TEST(PublishInside, ReplacesFileByFileAndRemovesTheOldOnes) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(WriteOutput(dir / "out", "old", false));
  LeaveScratch(dir / "out");
  const ino_t before = InodeOfDirectory(dir / "out");
  ASSERT_TRUE(WriteOutput(dir / "out", "new", true));
  EXPECT_THAT(AllNames(dir / "out"), ElementsAre("deep/er/file", "mark", "new"));
  EXPECT_EQ(fixtures::ReadFile(dir / "out/deep/er/file"), "new");
  EXPECT_EQ(InodeOfDirectory(dir / "out"), before);
}

// The mark is there only with all files of its run. The next run, of the same or of other work,
// ends as if nothing had happened.
void KillAtEveryCall(const std::function<void(const fs::path&)>& prepare, bool replace) {
  const fixtures::MemoryTemp in_memory;
  int calls = 0;
  for (bool killed = true; killed; ++calls) {
    const fixtures::TempDir dir;
    prepare(dir / "out");
    killed = fixtures::IsKilledAtCall(
        dir.path(), calls, [&] { return WriteOutput(dir / "out", "new", replace) ? 0 : 1; });
    if (fs::exists(dir / "out/mark")) {
      const std::string mark = fixtures::ReadFile(dir / "out/mark");
      EXPECT_TRUE(mark == "old" || mark == "new") << calls;
      EXPECT_EQ(fixtures::ReadFile(dir / "out/deep/er/file"), mark) << calls;
      EXPECT_TRUE(fs::exists(dir / "out" / mark)) << calls;
    } else {
      EXPECT_TRUE(*IsFreeOutput(dir / "out")) << calls << ": the same command is refused";
    }
    const bool force = replace || fs::exists(dir / "out/mark");
    const std::string next = calls % 2 == 0 ? "new" : "other";
    ASSERT_TRUE(WriteOutput(dir / "out", next, force)) << calls;
    EXPECT_THAT(AllNames(dir / "out"), ElementsAre("deep/er/file", "mark", next)) << calls;
    EXPECT_EQ(fixtures::ReadFile(dir / "out/deep/er/file"), next) << calls;
    EXPECT_FALSE(fs::exists(dir / "out/.moepack.partial")) << calls;
  }
  EXPECT_GT(calls, 30);
}

TEST(PublishInside, AKillAtAnyCallLeavesNothingThatLooksFinishedInAnEmptyDirectory) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  KillAtEveryCall([](const fs::path& out) { fs::create_directories(out); }, false);
}

// Old and new files with one inode cannot be told apart by it.
TEST(PublishInside, AKillAtAnyCallIsMendedWhereBothOutputsShareHardLinks) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::MemoryTemp in_memory;
  int calls = 0;
  for (bool killed = true; killed; ++calls) {
    const fixtures::TempDir dir;
    const fs::path out = dir / "out";
    ASSERT_TRUE(WriteSharing(out, "old", false));
    LeaveScratch(out);
    killed = fixtures::IsKilledAtCall(dir.path(), calls,
                                      [&] { return WriteSharing(out, "new", true) ? 0 : 1; });
    if (fs::exists(out / "head")) {
      EXPECT_TRUE(fs::exists(out / "deep/er/file")) << calls;
      EXPECT_TRUE(fs::exists(out / "deep/shared")) << calls;
    }
    const std::string next = calls % 2 == 0 ? "new" : "other";
    ASSERT_TRUE(WriteSharing(out, next, true)) << calls;
    std::vector<std::string> names = {"deep/er/file", "deep/shared", "head", "mark", next};
    EXPECT_EQ(AllNames(out), names) << calls;
    EXPECT_EQ(fixtures::ReadFile(out / "deep/shared"), "same") << calls;
    EXPECT_EQ(fixtures::ReadFile(out / "mark"), next) << calls;
  }
  EXPECT_GT(calls, 40);
}

// Other programs than moepack recognise an output by some of its files.
TEST(PublishInside, MarksAreRemovedInTheirOrderAndPublishedInTheOppositeOne) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::TempDir dir;
  ASSERT_TRUE(WriteSharing(dir / "out", "old", false));
  LeaveScratch(dir / "out");
  std::vector<std::string> calls;
  const int status = fixtures::RunInChild([&] {
    const auto note = [&](const std::string& call) {
      const bool publishes = call.starts_with("rename") && call.find("files/") != call.npos &&
                             call.find(" -> out/") != call.npos &&
                             call.find(" -> out/.moepack") == call.npos;
      const bool removes = call.starts_with("unlink out/") && call.find(".moepack") == call.npos;
      if (publishes || removes)
        calls.push_back(Cat(removes ? "-" : "+", fs::path(call).filename().string()));
      return fixtures::kLetItHappen;
    };
    const bool done =
        fixtures::WatchSystemCalls(dir.path(), note) && WriteSharing(dir / "out", "new", true);
    const std::vector<std::string> expected = {"-mark",   "-head", "-file", "-shared",
                                               "-old",    "-er",   "-deep", "+file",
                                               "+shared", "+new",  "+head", "+mark"};
    EXPECT_EQ(calls, expected);
    return done && calls == expected ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(PublishInside, AKillAtAnyCallLeavesTheOldOutputOrNoneThatLooksFinished) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const auto prepare = [](const fs::path& out) {
    ASSERT_TRUE(WriteOutput(out, "old", false));
    LeaveScratch(out);
  };
  KillAtEveryCall(prepare, true);
}

// Leaves the state in which the old mark is removed and one new file has its name.
void LeaveHalfPublished(const fs::path& out) {
  const auto fail = [](const std::string& call) {
    return call.starts_with("rename") && call.ends_with("/mark") &&
                   call.find("files/mark -> ") != call.npos
               ? EIO
               : fixtures::kLetItHappen;
  };
  const auto run = [&] {
    return fixtures::WatchSystemCalls(out.parent_path(), fail) && WriteOutput(out, "new", true);
  };
  EXPECT_EQ(fixtures::RunInChild([&] { return run() ? 1 : 0; }), 0);
}

TEST(PublishInside, TheNextRunResumesWhereAPublicationEnded) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  LeaveHalfPublished(dir / "out");
  ASSERT_TRUE(fs::exists(dir / "out/new"));
  ASSERT_FALSE(fs::exists(dir / "out/mark"));
  EXPECT_TRUE(*IsFreeOutput(dir / "out"));
  auto staging = StagingDirectory::Start(dir / "out", "new", OwnWithMark());
  ASSERT_TRUE(staging) << staging.error().message;
  EXPECT_TRUE(staging->resumed());
  EXPECT_EQ(fixtures::ReadFile(staging->path() / "new"), "new") << "it was taken back";
  EXPECT_FALSE(fs::exists(dir / "out/new"));
}

// Somebody restores a backup of the old output before the next run.
TEST(PublishInside, FilesThatOthersPutThereMeanwhileStay) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::TempDir dir;
  ASSERT_TRUE(WriteOutput(dir / "out", "old", false));
  LeaveScratch(dir / "out");
  LeaveHalfPublished(dir / "out");
  fs::remove(dir / "out/new");
  fixtures::WriteFile(dir / "out/new", "restored, and longer");
  fixtures::WriteFile(dir / "out/old", "restored, and longer");
  { ASSERT_TRUE(StagingDirectory::Start(dir / "out", "other", OwnWithMark())); }
  EXPECT_EQ(fixtures::ReadFile(dir / "out/new"), "restored, and longer");
  EXPECT_EQ(fixtures::ReadFile(dir / "out/old"), "restored, and longer");
}

TEST(PublishInside, ARecordThatNoRunWroteIsRefused) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out/.moepack.partial/files");
  fixtures::WriteFile(dir / "out/.moepack.partial/.lock", "");
  fixtures::WriteFile(dir / "out/.moepack.partial/.publishing", "moepack-publishing 1\0-");
  fixtures::WriteFile(dir / "out/precious", "x");
  const auto staging = StagingDirectory::Start(dir / "out", "id", OwnWithMark());
  ASSERT_TRUE(staging || staging.error().code == Code::kInvalidArgument);
  EXPECT_TRUE(fs::exists(dir / "out/precious"));
}

TEST(PublishInside, ScratchGoesWhereTheOutputIsWritten) {
  const fixtures::TempDir dir;
  EXPECT_EQ(*ScratchName(dir / "out", "experts"), dir / "out.experts");
  fs::create_directories(dir / "out");
  EXPECT_EQ(*ScratchName(dir / "out", "experts"), dir / "out/.moepack.experts");
}

}  // namespace
}  // namespace moepack
