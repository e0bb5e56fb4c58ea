#include "manifest/write/join.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "fixtures/system_calls.h"
#include "tests/manifest/write/join_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(JoinTest, PartsInAnyOrderJoinToTheFilesOfOneRun) {
  WriteThree();
  Write("whole");
  const auto whole = tiny::Tree(dir_ / "whole");
  std::vector<std::string> names = {"a", "b", "c"};
  do {
    const auto report = Join(names);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(tiny::Tree(dir_ / "out") == whole) << names[0] << names[1] << names[2];
    EXPECT_THAT(report->absent, IsEmpty());
    fs::remove_all(dir_ / "out");
  } while (std::next_permutation(names.begin(), names.end()));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST_F(JoinTest, EveryKindOfLinkGivesTheSameFilesAndIsReported) {
  WriteThree();
  Write("whole");
  for (const LinkKind kind : {LinkKind::kAuto, LinkKind::kHardlink, LinkKind::kCopy}) {
    JoinOptions options;
    options.link = kind;
    const auto report = Join({"a", "b", "c"}, "out", options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
    const bool linked = fs::equivalent(dir_ / "out" / kGroup1, dir_ / "b" / kGroup1);
    EXPECT_EQ(linked, kind != LinkKind::kCopy);
    EXPECT_FALSE(fs::equivalent(dir_ / "out/assets/config.json", dir_ / "b/assets/config.json"))
        << "people edit it";
    for (const JoinReport::File& file : report->files) {
      const bool asset = file.name.starts_with("assets/");
      const char* how = file.from.empty() ? "" : asset || !linked ? "copy" : "hardlink";
      EXPECT_EQ(file.link, how) << file.name;
    }
    fs::remove_all(dir_ / "out");
  }
}

TEST_F(JoinTest, ADryRunWritesNothingAndPredictsEveryFile) {
  WriteThree();
  JoinOptions options;
  options.dry_run = true;
  const auto before = tiny::Tree(dir_.path());
  const auto dry = Join({"a", "b", "c"}, "out", options);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
  ASSERT_TRUE(Join({"a", "b", "c"}));
  EXPECT_EQ(dry->files.size(), tiny::Names(dir_ / "out").size());
  uint64_t total = 0;
  for (const JoinReport::File& file : dry->files) {
    EXPECT_EQ(fs::file_size(dir_ / "out" / file.name), file.bytes) << file.name;
    total += file.bytes;
  }
  EXPECT_EQ(dry->total_bytes(), total);
}

TEST_F(JoinTest, AbsentPartsAreNamedAndMayBeJoinedOrAddedLater) {
  Write("whole");
  Write("a", tiny::Only({"group:0"}));
  Write("b", tiny::Only({"group:2"}));
  Write("both", tiny::Only({"group:0", "group:2"}));
  const auto some = Join({"b", "a"}, "some");
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_FALSE(some->manifest.complete);
  EXPECT_THAT(some->absent, ElementsAre("trunk", "group:1", "overlay", "assets"));
  EXPECT_TRUE(tiny::Tree(dir_ / "some") == tiny::Tree(dir_ / "both"));
  Write("rest", tiny::Only(some->absent));
  ASSERT_TRUE(Join({"rest", "some"}));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
  Write("some", tiny::Only(some->absent));
  EXPECT_TRUE(tiny::Tree(dir_ / "some") == tiny::Tree(dir_ / "whole"));
}

TEST_F(JoinTest, TakesAPartInSeveralInputsOnce) {
  WriteThree();
  Write("whole");
  Write("more", tiny::Only({"trunk", "group:1", "assets"}));
  ASSERT_TRUE(Join({"a", "more", "b", "c", "a"}));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
}

// The result has the digests of the source if one run had them, and so the words of its command
// line; the time is the latest one.
TEST_F(JoinTest, ADamagedPartIsNotJoined) {
  WriteThree();
  for (const LinkKind kind : {LinkKind::kHardlink, LinkKind::kCopy}) {
    JoinOptions options;
    options.link = kind;
    for (const std::string& file :
         {std::string("b/") + kGroup1, std::string("b/assets/config.json")}) {
      const std::string whole = fixtures::ReadFile(dir_ / file);
      std::string bytes = whole;
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      fixtures::WriteFile(dir_ / file, bytes);
      const Error error = Refusal({"a", "b", "c"}, "out", options);
      EXPECT_EQ(error.code, Code::kMismatch);
      EXPECT_THAT(error.message, HasSubstr((dir_ / file).string() + ": sha256: expected "));
      EXPECT_THAT(error.hint, HasSubstr("moepack verify " + (dir_ / "b").string()));
      fs::resize_file(dir_ / file, 10);
      EXPECT_THAT(Refusal({"a", "b", "c"}, "out", options).message,
                  HasSubstr((dir_ / file).string() + ": file size: expected "));
      fs::remove(dir_ / file);
      EXPECT_EQ(Refusal({"a", "b", "c"}, "out", options).code, Code::kNotFound);
      fixtures::WriteFile(dir_ / file, whole);
    }
  }
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST_F(JoinTest, RefusesAFileThatLeadsOutOfItsInput) {
  WriteThree();
  fs::rename(dir_ / "b" / kGroup1, dir_ / "secret");
  fs::create_symlink(dir_ / "secret", dir_ / "b" / kGroup1);
  const auto refused = Join({"a", "b", "c"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("found a link to "));
}

TEST_F(JoinTest, FewerThanTwoInputsAreRefused) {
  WriteThree();
  EXPECT_THAT(Refusal({}).message, HasSubstr("expected two or more, found 0"));
  const Error one = Refusal({"a"});
  EXPECT_EQ(one.code, Code::kInvalidArgument);
  EXPECT_EQ(one.message, "distributions to join: expected two or more, found 1");
}

TEST_F(JoinTest, AnOutputThatExistsIsReplacedOnlyIfForced) {
  WriteThree();
  Write("whole");
  Write("out", tiny::Only({"assets"}));
  EXPECT_THAT(Refusal({"a", "b", "c"}).message, HasSubstr("out already exists"));
  JoinOptions force;
  force.force = true;
  ASSERT_TRUE(Join({"a", "b", "c"}, "out", force));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
  fixtures::WriteFile(dir_ / "out/notes.txt", "mine");
  EXPECT_THAT(Refusal({"a", "b", "c"}, "out", force).message, HasSubstr("holds \"notes.txt\""));
}

TEST_F(JoinTest, TheOutputIsNeverAnInputNorInsideOrAroundOne) {
  WriteThree();
  JoinOptions force;
  force.force = true;
  for (const char* out : {"a", "c", "b/groups/new", "c/x", "."}) {
    const Error error = Refusal({"a", "b", "c"}, out, force);
    EXPECT_EQ(error.code, Code::kInvalidArgument) << out;
    EXPECT_THAT(error.message, HasSubstr(" the input")) << out;
  }
}

TEST_F(JoinTest, AJoinThatIsKilledBetweenSystemCallsLeavesNothingThatLooksFinished) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  WriteThree();
  Write("whole");
  const auto inputs = tiny::Tree(dir_.path());
  const auto expected = tiny::Tree(dir_ / "whole");
  for (const LinkKind kind : {LinkKind::kHardlink, LinkKind::kCopy}) {
    JoinOptions options;
    options.link = kind;
    const auto join = [&] { return Join({"a", "b", "c"}, "out", options).has_value(); };
    // One in five; `make soak` kills every command a hundred times (tests/faults).
    for (int calls = 0;; calls += 5) {
      const bool killed =
          fixtures::IsKilledAtCall(dir_.path(), calls, [&] { return join() ? 0 : 1; });
      if (fs::exists(dir_ / "out")) {
        EXPECT_TRUE(tiny::Tree(dir_ / "out") == expected) << calls;
        fs::remove_all(dir_ / "out");
      }
      EXPECT_TRUE(join()) << calls;
      EXPECT_TRUE(tiny::Tree(dir_ / "out") == expected) << calls;
      EXPECT_FALSE(fs::exists(dir_ / "out.partial")) << calls;
      fs::remove_all(dir_ / "out");
      if (!killed) break;
    }
  }
  EXPECT_TRUE(tiny::Tree(dir_.path()) == inputs) << "inputs are only read";
}

}  // namespace
}  // namespace moepack::manifest
