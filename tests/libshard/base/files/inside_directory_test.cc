#include "libshard/base/files/inside_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = InsideDirectory::Kind;

// A directory "in" beside a directory "out" that nothing may touch.
class InsideDirectoryTest : public testing::Test {
 protected:
  InsideDirectoryTest() {
    fs::create_directories(dir_ / "in/sub");
    fs::create_directories(dir_ / "out");
    fixtures::WriteFile(dir_ / "in/sub/file", "inside");
    fixtures::WriteFile(dir_ / "out/file", "outside");
  }
  InsideDirectory Inside() const { return InsideDirectory::Open(dir_ / "in").value(); }
  void ExpectOutsideUnchanged() const {
    EXPECT_EQ(fixtures::ReadFile(dir_ / "out/file"), "outside");
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "out"), fs::directory_iterator()), 1);
  }
  fixtures::TempDir dir_;
};

TEST_F(InsideDirectoryTest, RefusesNamesThatLeadOutside) {
  const InsideDirectory inside = Inside();
  for (const char* name :
       {"../out/file", "sub/../../out/file", "/etc/passwd", "", ".", "sub//file", "sub/"}) {
    const Status removed = inside.Remove(name);
    ASSERT_FALSE(removed) << name;
    EXPECT_EQ(removed.error().code, Code::kInvalidArgument);
    EXPECT_FALSE(inside.OpenFile(name, O_WRONLY | O_CREAT)) << name;
    EXPECT_FALSE(inside.Move("sub/file", inside, name, true)) << name;
  }
  ExpectOutsideUnchanged();
}

TEST_F(InsideDirectoryTest, DoesNothingThroughALinkInThePath) {
  fs::create_directory_symlink(dir_ / "out", dir_ / "in/evil");
  const InsideDirectory inside = Inside();
  const Status removed = inside.Remove("evil/file");
  ASSERT_FALSE(removed);
  EXPECT_THAT(removed.error().message, HasSubstr("in/evil: expected a directory, found a link"));
  EXPECT_FALSE(inside.WriteText("evil/new", "x"));
  EXPECT_FALSE(inside.OpenFile("evil/file", O_WRONLY | O_TRUNC));
  EXPECT_FALSE(inside.Move("sub/file", inside, "evil/file", true));
  EXPECT_FALSE(inside.Move("evil/file", inside, "stolen", true));
  EXPECT_FALSE(inside.MakeDirectories("evil/deep"));
  EXPECT_FALSE(inside.OpenDirectory("evil"));
  EXPECT_FALSE(inside.KindOf("evil/file"));
  ExpectOutsideUnchanged();
}

TEST_F(InsideDirectoryTest, ReplacesOrRemovesALinkItselfAndNotItsTarget) {
  const InsideDirectory inside = Inside();
  fs::create_symlink(dir_ / "out/file", dir_ / "in/link");
  EXPECT_FALSE(inside.OpenFile("link", O_WRONLY | O_TRUNC));
  ASSERT_TRUE(inside.WriteText("link", "mine"));
  EXPECT_FALSE(fs::is_symlink(dir_ / "in/link"));
  fs::create_directory_symlink(dir_ / "out", dir_ / "in/folder");
  ASSERT_TRUE(inside.Remove("folder"));
  EXPECT_FALSE(fs::is_symlink(dir_ / "in/folder"));
  ExpectOutsideUnchanged();
}

TEST_F(InsideDirectoryTest, RemovesATreeWithoutFollowingLinksAndItsMarkLast) {
  fs::create_directory_symlink(dir_ / "out", dir_ / "in/sub/evil");
  fs::create_directories(dir_ / "in/sub/zone");
  fixtures::WriteFile(dir_ / "in/sub/a-mark", "x");
  fixtures::WriteFile(dir_ / "in/sub/zone/z", "x");
  if (fixtures::CanWatchSystemCalls()) {
    const int status = fixtures::RunInChild([&] {
      std::string last;
      const auto keep = [&](const std::string& call) {
        if (call.starts_with("unlink") && fs::is_regular_file(dir_ / call.substr(7))) last = call;
        return fixtures::kLetItHappen;
      };
      if (!fixtures::WatchSystemCalls(dir_.path(), keep)) return 2;
      return Inside().Remove("sub", {"a-mark"}) && last == "unlink in/sub/a-mark" ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
  } else {
    ASSERT_TRUE(Inside().Remove("sub", {"a-mark"}));
  }
  EXPECT_FALSE(fs::exists(dir_ / "in/sub"));
  ExpectOutsideUnchanged();
}

TEST_F(InsideDirectoryTest, RemovesAFileButNoDirectoryThatHasItsName) {
  fixtures::WriteFile(dir_ / "in/model", "x");
  fs::create_symlink(dir_ / "out/file", dir_ / "in/link");
  EXPECT_TRUE(Inside().RemoveFile("model"));
  EXPECT_TRUE(Inside().RemoveFile("link"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir_ / "in/model")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir_ / "in/link")));
  const Status refused = Inside().RemoveFile("sub");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("in/sub"));
  EXPECT_TRUE(fs::exists(dir_ / "in/sub/file"));
  ExpectOutsideUnchanged();
}

TEST_F(InsideDirectoryTest, RemovingSomethingMissingIsFine) {
  EXPECT_TRUE(Inside().Remove("nothing"));
  EXPECT_TRUE(Inside().Remove("no/thing"));
  EXPECT_TRUE(Inside().RemoveFile("nothing"));
  EXPECT_TRUE(Inside().RemoveFile("no/thing"));
  EXPECT_EQ(Inside().KindOf("no/thing").value(), Kind::kNothing);
}

TEST_F(InsideDirectoryTest, DoesNotMoveOverAnExistingName) {
  fixtures::WriteFile(dir_ / "in/taken", "first");
  const Status refused = Inside().Move("sub/file", Inside(), "taken", false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().hint, HasSubstr("--force"));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "in/taken"), "first");
  ASSERT_TRUE(Inside().Move("sub/file", Inside(), "free/name", false));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "in/free/name"), "inside");
}

TEST_F(InsideDirectoryTest, ListsFilesRecursivelyWithoutFollowingLinks) {
  fs::create_directory_symlink(dir_ / "out", dir_ / "in/evil");
  EXPECT_THAT(Inside().ListFiles().value(), ElementsAre("evil", "sub/file"));
}

TEST_F(InsideDirectoryTest, FlushesTheParentOfEveryNewDirectory) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const int status = fixtures::RunInChild([&] {
    std::vector<std::string> calls;
    const auto note = [&](const std::string& call) {
      calls.push_back(call);
      return fixtures::kLetItHappen;
    };
    if (!fixtures::WatchSystemCalls(dir_.path(), note)) return 2;
    if (!InsideDirectory::OpenOrMake(dir_ / "a/b/c")) return 3;
    const std::vector<std::string> expected = {"mkdir a", "fsync .",     "mkdir a/b",
                                               "fsync a", "mkdir a/b/c", "fsync a/b"};
    return calls == expected ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(InsideDirectoryTest, MakesADirectoryInTheWorkingDirectory) {
  const int status = fixtures::RunInChild([&] {
    if (chdir(dir_.path().c_str()) != 0) return 2;
    if (!InsideDirectory::OpenOrMake("one") || !InsideDirectory::OpenOrMake("two/three/")) return 3;
    return InsideDirectory::OpenOrMake("") ? 4 : 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_directory(dir_ / "one"));
  EXPECT_TRUE(fs::is_directory(dir_ / "two/three"));
}

// Somebody who may write in the directory replaces a part of the path by a link at the worst
// moment.
TEST_F(InsideDirectoryTest, DoesNotFollowALinkSwappedInDuringTheCall) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  for (int at = 0;; ++at) {
    fs::remove_all(dir_ / "in");
    fs::create_directories(dir_ / "in/sub");
    fixtures::WriteFile(dir_ / "in/old", "x");
    fixtures::WriteFile(dir_ / "in/sub/victim", "x");
    fixtures::WriteFile(dir_ / "out/victim", "precious");
    const int status = fixtures::RunInChild([&] {
      int calls = 0;
      const auto swap = [&](const std::string&) {
        if (calls++ != at) return fixtures::kLetItHappen;
        std::error_code ignored;
        fs::rename(dir_ / "in/sub", dir_ / "in/moved", ignored);
        fs::create_directory_symlink(dir_ / "out", dir_ / "in/sub", ignored);
        return fixtures::kLetItHappen;
      };
      const InsideDirectory inside = Inside();
      if (!fixtures::WatchSystemCalls(dir_.path(), swap)) return 2;
      (void)inside.WriteText("sub/new", "x").has_value();
      (void)inside.Move("old", inside, "sub/old", true).has_value();
      (void)inside.Remove("sub/victim").has_value();
      (void)inside.Remove("sub").has_value();
      return calls > at ? 0 : 1;
    });
    EXPECT_EQ(fixtures::ReadFile(dir_ / "out/victim"), "precious") << at;
    fs::remove(dir_ / "out/victim");
    ExpectOutsideUnchanged();
    if (status == 1) break;
    ASSERT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace moepack
