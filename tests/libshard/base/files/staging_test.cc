#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "fixtures/memory_temp.h"
#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "libshard/pack/pack.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Names(const fs::path& directory) {
  return InsideDirectory::Open(directory).value().ListFiles().value();
}

// In this test, a directory with a file "mark" is ours.
OwnOutput Own() {
  const auto check = [](const InsideDirectory& directory) -> Status {
    SHARD_TRY(const InsideDirectory::Kind kind, directory.KindOf("mark"));
    if (kind == InsideDirectory::Kind::kFile) return Ok();
    return Error{Code::kInvalidArgument, "not ours"};
  };
  return {check, {"mark"}};
}

TEST(StagingDirectory, BecomesTheTargetWhenPublished) {
  const fixtures::TempDir dir;
  auto staging = StagingDirectory::Start(dir / "out", "id");
  ASSERT_TRUE(staging);
  EXPECT_EQ(staging->path(), dir / "out.partial/files");
  ASSERT_TRUE(staging->WriteText("f", "x"));
  EXPECT_FALSE(fs::exists(dir / "out"));
  ASSERT_TRUE(staging->Publish(false));
  EXPECT_TRUE(fs::exists(dir / "out/f"));
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
}

TEST(StagingDirectory, AcceptsATargetWithATrailingSlash) {
  const fixtures::TempDir dir;
  auto staging = StagingDirectory::Start(fs::path((dir / "out").string() + "/"), "id");
  ASSERT_TRUE(staging);
  ASSERT_TRUE(staging->Publish(false));
  EXPECT_TRUE(fs::is_directory(dir / "out"));
}

TEST(StagingDirectory, ASecondWriterIsRefused) {
  const fixtures::TempDir dir;
  const auto first = StagingDirectory::Start(dir / "out", "id");
  ASSERT_TRUE(first);
  const auto second = StagingDirectory::Start(dir / "out", "id");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kIo);
  EXPECT_THAT(second.error().message, HasSubstr("another process is writing it"));
  EXPECT_TRUE(first->OpenJournal().has_value()) << "the first one's files stay";
}

TEST(StagingDirectory, NeverTouchesADirectoryThatIsNotItsOwn) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out.partial");
  fixtures::WriteFile(dir / "out.partial/precious", "data");
  const auto staging = StagingDirectory::Start(dir / "out", "id");
  ASSERT_FALSE(staging);
  EXPECT_EQ(staging.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(fs::exists(dir / "out.partial/precious"));
}

TEST(StagingDirectory, NeverTouchesAFileUnderItsName) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "out.partial", "data");
  const auto staging = StagingDirectory::Start(dir / "out", "id");
  ASSERT_FALSE(staging);
  EXPECT_EQ(staging.error().code, Code::kInvalidArgument);
  EXPECT_THAT(staging.error().message, HasSubstr("out.partial already exists"));
  EXPECT_EQ(fixtures::ReadFile(dir / "out.partial"), "data");
}

TEST(StagingDirectory, ReplacesATargetOnlyWhenTold) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  fixtures::WriteFile(dir / "out/mark", "x");
  fixtures::WriteFile(dir / "out/old", "x");
  {
    auto staging = StagingDirectory::Start(dir / "out", "id", Own());
    ASSERT_TRUE(staging);
    const Status refused = staging->Publish(false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(fs::exists(dir / "out/old"));
    ASSERT_TRUE(staging->WriteText("new", "x"));
    ASSERT_TRUE(staging->Publish(true));
  }
  EXPECT_FALSE(fs::exists(dir / "out/old"));
  EXPECT_TRUE(fs::exists(dir / "out/new"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
}

TEST(StagingDirectory, IsRemovedAfterAnErrorAndKeptAfterAnInterrupt) {
  const fixtures::TempDir dir;
  { ASSERT_TRUE(StagingDirectory::Start(dir / "out", "id")); }
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
  {
    const auto staging = StagingDirectory::Start(dir / "out", "id");
    ASSERT_TRUE(staging);
    InterruptRequested() = true;
  }
  InterruptRequested() = false;
  EXPECT_TRUE(fs::exists(dir / "out.partial"));
}

TEST(StagingDirectory, ResumesOnlyTheSameRun) {
  const fixtures::TempDir dir;
  const auto leave = [&](const std::string& identity) {
    auto staging = StagingDirectory::Start(dir / "out", identity);
    EXPECT_TRUE(staging);
    fixtures::WriteFile(staging->path() / identity, "x");
    staging->Keep();
    return staging->resumed();
  };
  EXPECT_FALSE(leave("one"));
  EXPECT_TRUE(leave("one"));
  EXPECT_FALSE(leave("two"));
  EXPECT_FALSE(fs::exists(dir / "out.partial/files/one")) << "what another run left is removed";
}

TEST(StagingDirectory, AnUnwritablePlaceIsAnInputOutputError) {
  const auto staging = StagingDirectory::Start("/proc/moepack-test/out", "id");
  ASSERT_FALSE(staging);
  EXPECT_EQ(staging.error().code, Code::kIo);
  EXPECT_THAT(staging.error().message, HasSubstr("/proc/moepack-test: create: "));
}

// A kill between flush and rename of `tokenizer.json` leaves this.
TEST(StagingDirectory, PublishesOnlyFilesThatThisRunWrote) {
  const fixtures::TempDir dir;
  {
    auto killed = StagingDirectory::Start(dir / "out", "id");
    ASSERT_TRUE(killed);
    killed->Keep();
  }
  fs::create_directories(dir / "out.partial/files/assets");
  fixtures::WriteFile(dir / "out.partial/files/assets/tokenizer.json.tmp-123", "half");
  fixtures::WriteFile(dir / "out.partial/files/strange", "x");
  auto staging = StagingDirectory::Start(dir / "out", "id");
  ASSERT_TRUE(staging);
  EXPECT_TRUE(staging->resumed());
  ASSERT_TRUE(staging->WriteText("assets/tokenizer.json", "whole"));
  ASSERT_TRUE(staging->Publish(false));
  EXPECT_THAT(Names(dir / "out"), ElementsAre("assets/tokenizer.json"));
}

// As another run would do on a file system that grants every lock.
TEST(StagingDirectory, LeavesFilesPublishedByAnotherRunAlone) {
  const fixtures::TempDir dir;
  {
    auto staging = StagingDirectory::Start(dir / "out", "id");
    ASSERT_TRUE(staging);
    fixtures::WriteFile(dir / "out.partial/files/f", "of another run");
    fs::rename(dir / "out.partial/files", dir / "out");
    const Status refused = staging->Publish(true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kIo);
    EXPECT_EQ(refused.error().message,
              (dir / "out.partial/files").string() +
                  ": expected the directory that this run writes, found another or none");
    EXPECT_THAT(refused.error().hint, HasSubstr("the file system has no locks"));
  }
  EXPECT_EQ(fixtures::ReadFile(dir / "out/f"), "of another run");
}

// Of a killed cleanup, or of a run that a power cut ended: its lock may be lost.
TEST(StagingDirectory, RecognizesWhatAnInterruptedRunLeft) {
  const std::string journal = "moepack-journal 1 id\n";
  using Files = std::vector<std::pair<std::string, std::string>>;
  const std::vector<Files> left = {{},
                                   {{".lock", ""}},
                                   {{".lock", ""}, {".journal", journal}},
                                   {{".journal", journal}},
                                   {{".journal", journal}, {"files/f", "x"}},
                                   {{".lock", ""}, {".journal.tmp-12", "moe"}},
                                   {{".journal.tmp-12", ""}},
                                   {{".removed-12/f", "x"}, {".journal.tmp-12", ""}}};
  for (const Files& files : left) {
    const fixtures::TempDir dir;
    fs::create_directories(dir / "out.partial");
    for (const auto& [name, text] : files) {
      fs::create_directories((dir / "out.partial" / name).parent_path());
      fixtures::WriteFile(dir / "out.partial" / name, text);
    }
    auto staging = StagingDirectory::Start(dir / "out", "another");
    ASSERT_TRUE(staging) << staging.error().message;
    ASSERT_TRUE(staging->WriteText("new", "x"));
    ASSERT_TRUE(staging->Publish(false));
    EXPECT_THAT(Names(dir.path()), ElementsAre("out/new"));
  }
}

TEST(StagingDirectory, DoesNotClaimADirectoryThatHoldsOnlyALock) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out.partial");
  fixtures::WriteFile(dir / "out.partial/.lock", "");
  fixtures::WriteFile(dir / "out.partial/precious", "data");
  EXPECT_FALSE(StagingDirectory::Start(dir / "out", "id"));
  EXPECT_EQ(fixtures::ReadFile(dir / "out.partial/precious"), "data");
}

TEST(StagingDirectory, DoesNotClaimFilesWithoutALockOrAJournal) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out.partial/files");
  fixtures::WriteFile(dir / "out.partial/files/precious", "data");
  EXPECT_FALSE(StagingDirectory::Start(dir / "out", "id"));
  EXPECT_EQ(fixtures::ReadFile(dir / "out.partial/files/precious"), "data");
}

TEST(StagingDirectory, NothingIsWrittenOrRemovedThroughALink) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "elsewhere/files");
  fixtures::WriteFile(dir / "elsewhere/files/precious", "data");
  fixtures::WriteFile(dir / "elsewhere/.journal", "moepack-journal 1 id\n");
  fs::create_directory_symlink(dir / "elsewhere", dir / "out.partial");
  EXPECT_FALSE(StagingDirectory::Start(dir / "out", "id"));
  EXPECT_FALSE(StagingDirectory::Start(dir / "out", "another"));
  fs::remove(dir / "out.partial");
  fs::create_directories(dir / "out.partial");
  fixtures::WriteFile(dir / "out.partial/.lock", "");
  fs::create_directory_symlink(dir / "elsewhere/files", dir / "out.partial/files");
  EXPECT_FALSE(StagingDirectory::Start(dir / "out", "id"));
  EXPECT_EQ(fixtures::ReadFile(dir / "elsewhere/files/precious"), "data");
}

TEST(StagingDirectory, RemovesTheOldOutputThatAKilledReplacementLeft) {
  const fixtures::TempDir dir;
  for (const char* name : {"out", "out.replaced-77"}) {
    fs::create_directories(dir / name);
    fixtures::WriteFile(dir / name / "mark", name);
  }
  const auto staging = StagingDirectory::Start(dir / "out", "id", Own());
  ASSERT_TRUE(staging);
  EXPECT_FALSE(fs::exists(dir / "out.replaced-77"));
  EXPECT_EQ(fixtures::ReadFile(dir / "out/mark"), "out");
  EXPECT_THAT(staging->warnings(), IsEmpty());
}

TEST(StagingDirectory, RestoresTheOldOutputThatAKilledReplacementMovedAside) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out.replaced-77");
  fixtures::WriteFile(dir / "out.replaced-77/mark", "old");
  {
    auto staging = StagingDirectory::Start(dir / "out", "id", Own());
    ASSERT_TRUE(staging);
    EXPECT_EQ(fixtures::ReadFile(dir / "out/mark"), "old");
    EXPECT_FALSE(staging->Publish(false)) << "the output exists again, so --force is needed";
    ASSERT_TRUE(staging->WriteText("mark", "new"));
    ASSERT_TRUE(staging->Publish(true));
  }
  EXPECT_THAT(Names(dir.path()), ElementsAre("out/mark"));
  EXPECT_EQ(fixtures::ReadFile(dir / "out/mark"), "new");
}

TEST(StagingDirectory, LeavesUnknownReplacedDirectoriesAloneAndNamesThem) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  fixtures::WriteFile(dir / "out/mark", "x");
  fs::create_directories(dir / "out.replaced-77");
  fs::create_directories(dir / "out.replaced-yesterday");
  fixtures::WriteFile(dir / "out.replaced-77/thesis", "x");
  const auto staging = StagingDirectory::Start(dir / "out", "id", Own());
  ASSERT_TRUE(staging);
  EXPECT_THAT(staging->warnings(), ElementsAre(HasSubstr("out.replaced-77: looks like what")));
  EXPECT_TRUE(fs::exists(dir / "out.replaced-77/thesis"));
  EXPECT_TRUE(fs::exists(dir / "out.replaced-yesterday"));
}

TEST(StagingDirectory, AFailedRemovalIsReportedAndCompletedByTheNextRun) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::TempDir dir;
  fs::create_directories(dir / "out");
  fixtures::WriteFile(dir / "out/mark", "x");
  fixtures::WriteFile(dir / "out/weights", "x");
  const auto fail = [](const std::string& call) {
    const bool weights = call.starts_with("unlink") && call.ends_with("/weights");
    return weights ? EIO : fixtures::kLetItHappen;
  };
  const auto run = [&] {
    auto staging = StagingDirectory::Start(dir / "out", "id", Own());
    const bool done = staging && staging->WriteText("mark", "new") && staging->Publish(true);
    const std::string warning =
        done && staging->warnings().size() == 1 ? staging->warnings()[0] : "";
    return warning.find("could not be removed") != warning.npos &&
                   warning.find("out.replaced-") != warning.npos
               ? 0
               : 1;
  };
  ASSERT_EQ(fixtures::RunInChild(
                [&] { return fixtures::WatchSystemCalls(dir.path(), fail) ? run() : 2; }),
            0);
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
  EXPECT_EQ(fixtures::ReadFile(dir / "out/mark"), "new");
  { ASSERT_TRUE(StagingDirectory::Start(dir / "out", "id", Own())); }
  EXPECT_THAT(Names(dir.path()), ElementsAre("out/mark"));
}

// The files of a run; "old" is the content of the target that is replaced.
bool WriteAndPublish(const fs::path& target, const std::string& text, bool replace) {
  auto staging = StagingDirectory::Start(target, text, Own());
  return staging && staging->WriteText("mark", text) && staging->WriteText("deep/er/file", text) &&
         staging->Publish(replace);
}

// A run can be killed at every system call that changes a file.
TEST(StagingDirectory, SurvivesBeingKilledAtEverySystemCall) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::MemoryTemp in_memory;
  int calls = 0;
  for (bool killed = true; killed; ++calls) {
    const fixtures::TempDir dir;
    ASSERT_TRUE(WriteAndPublish(dir / "out", "old", false));
    killed = fixtures::IsKilledAtCall(
        dir.path(), calls, [&] { return WriteAndPublish(dir / "out", "new", true) ? 0 : 1; });
    if (fs::exists(dir / "out")) {
      const std::string mark = fixtures::ReadFile(dir / "out/mark");
      EXPECT_TRUE(mark == "old" || mark == "new") << calls;
      EXPECT_EQ(fixtures::ReadFile(dir / "out/deep/er/file"), mark) << calls;
    }
    const std::string next = calls % 2 == 0 ? "new" : "other";
    ASSERT_TRUE(WriteAndPublish(dir / "out", next, true)) << calls;
    EXPECT_THAT(Names(dir.path()), ElementsAre("out/deep/er/file", "out/mark")) << calls;
    EXPECT_EQ(fixtures::ReadFile(dir / "out/mark"), next) << calls;
    EXPECT_FALSE(fs::exists(dir / "out.partial")) << calls;
  }
  EXPECT_GT(calls, 30);
}

TEST(StagingDirectory, CompletesAKilledCleanupAfterAnError) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::MemoryTemp in_memory;
  for (int calls = 0; calls >= 0; ++calls) {
    const fixtures::TempDir dir;
    const bool killed = fixtures::IsKilledAtCall(dir.path(), calls, [&] {
      auto staging = StagingDirectory::Start(dir / "a/b/out", "id");
      return staging && staging->WriteText("f", "x") ? 0 : 1;  // and an error removes it
    });
    ASSERT_TRUE(WriteAndPublish(dir / "a/b/out", "other", false)) << calls;
    EXPECT_THAT(Names(dir.path()), ElementsAre("a/b/out/deep/er/file", "a/b/out/mark")) << calls;
    if (!killed) break;
  }
}

// Two processes that repeatedly take the lock and clean up never both hold it.
TEST(StagingDirectory, OnlyOneProcessHoldsTheLockEvenWhileAnotherRemovesIt) {
  const fixtures::MemoryTemp in_memory;
  const fixtures::TempDir dir;
  const auto contend = [&](int rounds) {
    for (int held = 0; held < rounds;) {
      const auto staging = StagingDirectory::Start(dir / "out", "id");
      if (!staging && staging.error().message.find("another process") == std::string::npos) {
        std::fputs((staging.error().message + "\n").c_str(), stderr);
        return 1;
      }
      if (!staging) continue;
      if (!fs::create_directory(dir / "held")) return 2;  // the other one is in here too
      if (!staging->OpenJournal()) return 3;
      fs::remove(dir / "held");
      ++held;
    }
    return 0;
  };
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) _exit(contend(300));
  EXPECT_EQ(contend(300), 0);
  int status = 0;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace moepack
