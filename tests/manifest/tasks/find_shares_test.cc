#include "manifest/tasks/find_shares.h"

#include <gmock/gmock.h>

#include <fstream>

#include "fixtures/temp_dir.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;

constexpr ShareKind kKind = {"share.json", ".part", "shares", "leave the others out"};

class Shares : public testing::Test {
 protected:
  void Make(const std::string& directory) {
    fs::create_directories(dir_ / directory);
    std::ofstream(dir_ / directory / kKind.record) << "{}";
  }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  fixtures::TempDir dir_;
};

TEST_F(Shares, AreThoseThatAreNamedAndThoseInDirectories) {
  Make("tasks/1.part");
  Make("tasks/0.part");
  Make("tasks/other");
  Make("alone");
  fs::create_directories(dir_ / "tasks/2.part");  // without a record
  const auto found = FindShares({Path("alone"), Path("tasks")}, kKind);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].directory, Path("alone"));
  EXPECT_TRUE((*found)[0].named);
  EXPECT_EQ((*found)[1].directory, Path("tasks/0.part"));
  EXPECT_FALSE((*found)[1].named);
  EXPECT_EQ((*found)[2].directory, Path("tasks/1.part"));
}

TEST_F(Shares, AreNotMixedWithOtherInputs) {
  Make("tasks/0.part");
  fs::create_directories(dir_ / "none");
  const auto none = FindShares({Path("none"), Path("absent")}, kKind);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  const auto mixed = FindShares({Path("none"), Path("tasks")}, kKind);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, Code::kInvalidArgument);
  EXPECT_EQ(mixed.error().message,
            Path("none") + ": expected shares, as in " + Path("tasks") + ", found none");
  EXPECT_EQ(mixed.error().hint, "leave the others out");
}

TEST_F(Shares, ThatAreMissingAreNamed) {
  fs::create_directories(dir_ / "tasks/00001-of-00004.partial-7");
  EXPECT_TRUE(CheckAllThere(Path("tasks/00000-of-00002"), 2, {0, 1}));
  const Status missing = CheckAllThere(Path("tasks/00000-of-00004"), 4, {0, 2});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().message,
            Path("tasks") +
                ": tasks: expected 4, found 2: 1 and 3 are missing (begun and not "
                "finished: 1)");
  EXPECT_EQ(missing.error().hint,
            "run what is missing with the command of the others and --task 1/4, and so on");
}

}  // namespace
}  // namespace moepack::manifest
