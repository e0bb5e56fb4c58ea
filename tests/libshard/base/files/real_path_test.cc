#include "libshard/base/files/real_path.h"

#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

namespace fs = std::filesystem;

class RealPath : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(dir_.path() / "real");
    fs::create_directory_symlink("real", dir_.path() / "link");
  }
  fixtures::TempDir dir_;
  std::error_code error_;
};

TEST_F(RealPath, FollowsLinks) {
  const fs::path real = CanonicalPath(dir_.path() / "real", error_);
  EXPECT_EQ(CanonicalPath(dir_.path() / "link" / ".", error_), real);
  EXPECT_FALSE(error_);
  EXPECT_EQ(WeaklyCanonicalPath(dir_.path() / "link" / "new" / ".." / "file", error_),
            real / "file");
  EXPECT_FALSE(error_);
}

TEST_F(RealPath, OfWhatDoesNotExistIsAbsolute) {
  const fs::path here = CanonicalPath(".", error_);
  EXPECT_EQ(WeaklyCanonicalPath("missing", error_), here / "missing");
  EXPECT_EQ(WeaklyCanonicalPath("missing/new/", error_), here / "missing" / "new");
  EXPECT_EQ(WeaklyCanonicalPath("/", error_), "/");
  EXPECT_FALSE(error_);
}

TEST_F(RealPath, OfNothingIsAnError) {
  EXPECT_EQ(CanonicalPath(dir_.path() / "missing", error_), fs::path());
  EXPECT_EQ(error_, std::errc::no_such_file_or_directory);
}

TEST_F(RealPath, AnEntryIsTheSameHoweverItsDirectoryIsSpelled) {
  const fs::path entry = EntryPath(dir_.path() / "real" / "new", error_);
  EXPECT_EQ(EntryPath(dir_.path() / "link" / "." / "new", error_), entry);
  EXPECT_EQ(EntryPath(dir_.path() / "real" / ".." / "link" / "new", error_), entry);
  // A link is replaced itself, so it is not the entry that it leads to.
  EXPECT_NE(EntryPath(dir_.path() / "link", error_), EntryPath(dir_.path() / "real", error_));
  EXPECT_FALSE(error_);
}

TEST_F(RealPath, AbsoluteKeepsLinks) {
  EXPECT_EQ(AbsolutePath(dir_.path() / "link"), dir_.path() / "link");
  EXPECT_EQ(AbsolutePath("a/b"), fs::current_path() / "a" / "b");
}

}  // namespace
}  // namespace moepack
