#include "libshard/base/files/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using testing::ElementsAre;

const std::string kA(32, 'a'), kB(32, 'b'), kC(32, 'c');

Result<Journal> Open(const fixtures::TempDir& dir) {
  return Journal::Open(InsideDirectory::Open(dir.path()).value(), "j");
}

std::vector<std::vector<std::string>> Read(const std::string& text) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "j") << text;
  const auto journal = Open(dir);
  EXPECT_TRUE(journal);
  return journal->finished();
}

TEST(Journal, RemembersWhatWasAdded) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "j") << "moepack-journal 1 id\n";
  {
    auto journal = Open(dir);
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->Add(1, 0, kA));
    ASSERT_TRUE(journal->Add(0, 0, kB));
    ASSERT_TRUE(journal->Add(1, 1, kC));
  }
  const auto journal = Open(dir);
  EXPECT_THAT(journal->finished(), ElementsAre(ElementsAre(kB), ElementsAre(kA, kC)));
}

TEST(Journal, ATornLastLineIsIgnoredAndDoesNotCorruptTheNextOne) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "j") << "moepack-journal 1 id\n0 0 " + kA + "\n0 1 bbb";
  {
    auto journal = Open(dir);
    EXPECT_THAT(journal->finished(), ElementsAre(ElementsAre(kA)));
    ASSERT_TRUE(journal->Add(0, 1, kC));
  }
  EXPECT_THAT(Open(dir)->finished(), ElementsAre(ElementsAre(kA, kC)));
}

TEST(Journal, AGapEndsTheListOfAnOutput) {
  EXPECT_THAT(Read("id\n0 0 " + kA + "\n0 2 " + kC + "\n"), ElementsAre(ElementsAre(kA)));
}

TEST(Journal, ARestartedOutputForgetsItsLaterTensors) {
  EXPECT_THAT(Read("id\n0 0 " + kA + "\n0 1 " + kB + "\n0 0 " + kC + "\n"),
              ElementsAre(ElementsAre(kC)));
}

TEST(Journal, InvalidLinesAreSkipped) {
  const std::string nonsense = "x y z\n0 1 short\n99999999999 0 " + kC + "\n-1 0 " + kC + "\n";
  EXPECT_THAT(Read("id\n0 0 " + kA + "\n" + nonsense + "0 1 " + kB + "\n"),
              ElementsAre(ElementsAre(kA, kB)));
}

TEST(Journal, InterruptedAndShortWritesAreContinued) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const fixtures::TempDir dir;
  std::ofstream(dir / "j") << "moepack-journal 1 id\n";
  const auto disturb = [write = 0](const std::string& call) mutable {
    if (call != "write j") return fixtures::kLetItHappen;
    ++write;
    return write % 3 == 1 ? EINTR : write % 3 == 2 ? fixtures::kShortWrite : 0;
  };
  ASSERT_EQ(fixtures::RunInChild([&] {
              auto journal = Open(dir);
              if (!fixtures::WatchSystemCalls(dir.path(), disturb)) return 2;
              return journal->Add(0, 0, kA) && journal->Add(0, 1, kB) ? 0 : 1;
            }),
            0);
  EXPECT_THAT(Open(dir)->finished(), ElementsAre(ElementsAre(kA, kB)));
}

TEST(Journal, DoesNotOpenThroughALink) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "elsewhere") << "moepack-journal 1 id\n";
  std::filesystem::create_symlink(dir / "elsewhere", dir / "j");
  const auto journal = Open(dir);
  ASSERT_FALSE(journal);
  EXPECT_THAT(journal.error().message, testing::HasSubstr("expected a regular file, found a link"));
}

}  // namespace
}  // namespace moepack
