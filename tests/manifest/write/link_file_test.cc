#include "manifest/write/link_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LinkFileTest : public testing::Test {
 protected:
  LinkFileTest() {
    fs::create_directories(dir_ / "staged");
    fixtures::WriteFile(dir_ / "trunk", std::string((3u << 20) + 5, 'x'));
  }
  InsideDirectory Staged() { return *InsideDirectory::Open(dir_ / "staged"); }
  Result<LinkKind> Link(LinkKind kind) {
    return LinkFile(dir_ / "trunk", Staged(), "t", {kind, dir_ / "node"});
  }
  fixtures::TempDir dir_;
};

TEST_F(LinkFileTest, EveryKindOfLinkHasTheBytesOfTheSource) {
  for (const LinkKind kind : {LinkKind::kAuto, LinkKind::kHardlink, LinkKind::kCopy}) {
    const auto used = Link(kind);
    ASSERT_TRUE(used) << used.error().message;
    EXPECT_TRUE(kind == LinkKind::kAuto || *used == kind);
    EXPECT_EQ(fs::equivalent(dir_ / "staged/t", dir_ / "trunk"), *used == LinkKind::kHardlink);
    EXPECT_TRUE(fixtures::ReadFile(dir_ / "staged/t") == fixtures::ReadFile(dir_ / "trunk"));
    fs::remove(dir_ / "staged/t");
  }
}

TEST_F(LinkFileTest, OnlyACopyTakesTheBytesAgain) {
  const std::string out = (dir_ / "new/node").string();
  EXPECT_FALSE(WillCopy(dir_ / "trunk", out, LinkKind::kAuto));
  EXPECT_FALSE(WillCopy("/proc/version", out, LinkKind::kHardlink)) << "it fails instead";
  EXPECT_TRUE(WillCopy(dir_ / "trunk", out, LinkKind::kCopy));
  EXPECT_TRUE(WillCopy("/proc/version", out, LinkKind::kAuto)) << "another file system";
}

TEST_F(LinkFileTest, ASymlinkIsRelativeToWhereTheNodeWillBe) {
  ASSERT_TRUE(Link(LinkKind::kSymlink));
  EXPECT_EQ(fs::read_symlink(dir_ / "staged/t"), "../trunk");
}

// A directory that meanwhile replaces the staged one gets nothing.
TEST_F(LinkFileTest, WritesOnlyIntoTheDirectoryHeldOpen) {
  for (const LinkKind kind : {LinkKind::kHardlink, LinkKind::kSymlink, LinkKind::kCopy}) {
    const InsideDirectory staged = Staged();
    fs::rename(dir_ / "staged", dir_ / "moved");
    fs::create_directory(dir_ / "staged");
    ASSERT_TRUE(LinkFile(dir_ / "trunk", staged, "t", {kind, dir_ / "node"}));
    EXPECT_TRUE(fs::is_empty(dir_ / "staged"));
    EXPECT_TRUE(fs::exists(fs::symlink_status(dir_ / "moved/t")));
    fs::remove_all(dir_ / "moved");
  }
}

TEST_F(LinkFileTest, ReplacesNothingAndFollowsNoLinks) {
  fixtures::WriteFile(dir_ / "victim", "precious");
  fs::create_symlink("../victim", dir_ / "staged/t");
  for (const LinkKind kind : {LinkKind::kAuto, LinkKind::kHardlink, LinkKind::kSymlink,
                              LinkKind::kReflink, LinkKind::kCopy}) {
    const auto used = Link(kind);
    ASSERT_FALSE(used) << LinkName(kind);
    EXPECT_THAT(used.error().message, HasSubstr("staged/t: "));
  }
  EXPECT_EQ(fixtures::ReadFile(dir_ / "victim"), "precious");
  EXPECT_EQ(fs::read_symlink(dir_ / "staged/t"), "../victim");
}

TEST_F(LinkFileTest, AMissingSourceIsNamedWithTheKind) {
  fs::remove(dir_ / "trunk");
  const auto used = Link(LinkKind::kHardlink);
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, Code::kIo);
  EXPECT_THAT(used.error().message, HasSubstr("staged/t: hardlink: No such file"));
  EXPECT_EQ(used.error().hint, "use --link auto or --link copy");
}

TEST_F(LinkFileTest, AnInterruptEndsACopy) {
  InterruptRequested() = true;
  const auto used = Link(LinkKind::kCopy);
  InterruptRequested() = false;
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, Code::kInterrupted);
}

}  // namespace
}  // namespace moepack::manifest
