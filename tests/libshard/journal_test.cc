#include "libshard/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"

namespace shard {
namespace {

using testing::ElementsAre;

const std::string kA(32, 'a'), kB(32, 'b'), kC(32, 'c');

std::vector<std::vector<std::string>> Read(const std::string& text) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "j") << text;
  const auto journal = Journal::Open(dir / "j");
  EXPECT_TRUE(journal);
  return journal->finished();
}

TEST(Journal, RemembersWhatWasAdded) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "j") << "moepack-journal 1 id\n";
  {
    auto journal = Journal::Open(dir / "j");
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->Add(1, 0, kA));
    ASSERT_TRUE(journal->Add(0, 0, kB));
    ASSERT_TRUE(journal->Add(1, 1, kC));
  }
  const auto journal = Journal::Open(dir / "j");
  EXPECT_THAT(journal->finished(), ElementsAre(ElementsAre(kB), ElementsAre(kA, kC)));
}

TEST(Journal, ATornLastLineCountsForNothingAndDoesNotSpoilTheNext) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "j") << "moepack-journal 1 id\n0 0 " + kA + "\n0 1 bbb";
  {
    auto journal = Journal::Open(dir / "j");
    EXPECT_THAT(journal->finished(), ElementsAre(ElementsAre(kA)));
    ASSERT_TRUE(journal->Add(0, 1, kC));
  }
  EXPECT_THAT(Journal::Open(dir / "j")->finished(), ElementsAre(ElementsAre(kA, kC)));
}

TEST(Journal, GapsEndTheListOfAnOutput) {
  EXPECT_THAT(Read("id\n0 0 " + kA + "\n0 2 " + kC + "\n"), ElementsAre(ElementsAre(kA)));
}

TEST(Journal, AnOutputThatWasStartedAgainForgetsItsLaterTensors) {
  EXPECT_THAT(Read("id\n0 0 " + kA + "\n0 1 " + kB + "\n0 0 " + kC + "\n"),
              ElementsAre(ElementsAre(kC)));
}

TEST(Journal, NonsenseLinesAreSkipped) {
  EXPECT_TRUE(Read("id\nx y z\n0 0 short\n99999999999 0 " + kA + "\n-1 0 " + kA + "\n").empty());
}

}  // namespace
}  // namespace shard
