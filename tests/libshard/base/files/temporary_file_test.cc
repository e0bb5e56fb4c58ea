#include "libshard/base/files/temporary_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::ElementsAre;

std::vector<std::string> NamesIn(const fs::path& directory) {
  return InsideDirectory::Open(directory).value().ListFiles().value();
}

// A child that writes half of a file and is killed; its number.
pid_t LeaveHalf(const fs::path& path) {
  const pid_t child = fork();
  if (child == 0) {
    auto file = AtomicFile::Create(path);
    if (file) (void)file->Write("half").has_value();
    raise(SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  return child;
}

TEST(TemporaryFile, TheNextRunRemovesWhatAKilledOneLeft) {
  const fixtures::TempDir dir;
  const pid_t left = LeaveHalf(dir / "plan.json");
  ASSERT_THAT(NamesIn(dir.path()), ElementsAre(Cat("plan.json.tmp-", left)));
  ASSERT_TRUE(WriteTextFile(dir / "plan.json", "whole"));
  EXPECT_THAT(NamesIn(dir.path()), ElementsAre("plan.json"));
}

TEST(TemporaryFile, DocumentsOfADirectoryAreCleanedUpTheSameWay) {
  const fixtures::TempDir dir;
  fs::create_directories(dir / "deep");
  LeaveHalf(dir / "deep/index.json");
  const auto directory = InsideDirectory::Open(dir.path());
  ASSERT_TRUE(directory->WriteText("deep/index.json", "whole"));
  EXPECT_THAT(NamesIn(dir.path()), ElementsAre("deep/index.json"));
}

// The number of a process may be that of another one by then, or of one in another container.
TEST(TemporaryFile, TheNumberOfALivingProcessDoesNotKeepALeftFile) {
  const fixtures::TempDir dir;
  for (const pid_t number : {getpid(), getppid(), pid_t{1}})
    fixtures::WriteFile(dir / Cat("plan.json.tmp-", number), "half");
  ASSERT_TRUE(WriteTextFile(dir / "plan.json", "whole"));
  EXPECT_THAT(NamesIn(dir.path()), ElementsAre("plan.json"));
}

TEST(TemporaryFile, AFileThatIsBeingWrittenStays) {
  const fixtures::TempDir dir;
  auto other = AtomicFile::Create(dir / "plan.json");
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->Write("of the other"));
  // It has the number of this process; so both have a name.
  ASSERT_TRUE(WriteTextFile(dir / "plan.json", "mine"));
  EXPECT_EQ(NamesIn(dir.path()).size(), 2u);
  ASSERT_TRUE(other->Commit());
  EXPECT_EQ(fixtures::ReadFile(dir / "plan.json"), "of the other");
  EXPECT_THAT(NamesIn(dir.path()), ElementsAre("plan.json"));
}

TEST(TemporaryFile, OtherNamesLinksAndPipesStay) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "precious", "x");
  fixtures::WriteFile(dir / "other.json.tmp-1", "x");
  fixtures::WriteFile(dir / "plan.json.tmp-mine", "x");
  fixtures::WriteFile(dir / "plan.json.kept-1", "x");
  fs::create_hard_link(dir / "precious", dir / "hard");
  fs::create_symlink("precious", dir / "plan.json.tmp-2");
  ASSERT_EQ(mkfifo((dir / "plan.json.tmp-3").c_str(), 0600), 0);
  ASSERT_TRUE(WriteTextFile(dir / "plan.json", "whole"));
  EXPECT_THAT(NamesIn(dir.path()),
              ElementsAre("hard", "other.json.tmp-1", "plan.json", "plan.json.kept-1",
                          "plan.json.tmp-2", "plan.json.tmp-3", "plan.json.tmp-mine", "precious"));
}

TEST(TemporaryOf, RecognizesTheTemporaryFileOfAKilledWrite) {
  EXPECT_EQ(TemporaryOf("a/tokenizer.json.tmp-123"), "a/tokenizer.json");
  for (const char* name : {"a", "a.tmp-", "a.tmp-x", "a.tmp-12x", "a.tmp-1.json"}) {
    EXPECT_EQ(TemporaryOf(name), "") << name;
  }
}

}  // namespace
}  // namespace moepack
