#include "libshard/base/files/temporary_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

class TemporaryDirectoryTest : public testing::Test {
 protected:
  TemporaryDirectoryTest() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
  }
  ~TemporaryDirectoryTest() override {
    before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1);
  }
  std::string before_;
};

TEST_F(TemporaryDirectoryTest, IsWhatTmpdirNames) {
  const fixtures::TempDir dir;
  setenv("TMPDIR", dir.path().c_str(), 1);
  EXPECT_EQ(*TemporaryDirectory(), dir.path());
}

TEST_F(TemporaryDirectoryTest, ATmpdirThatNamesNothingIsNamedInTheError) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "file", "x");
  for (const char* name : {"none", "file", "none/deeper", "file/deeper"}) {
    setenv("TMPDIR", (dir / name).c_str(), 1);
    const auto found = TemporaryDirectory();
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().code, Code::kIo);
    EXPECT_EQ(found.error().message, "TMPDIR: " + (dir / name).string() +
                                         ": expected a directory for temporary files, found none");
    EXPECT_EQ(found.error().hint, kTemporaryHint);
  }
}

TEST_F(TemporaryDirectoryTest, AnEmptyTmpdirCountsAsNone) {
  setenv("TMPDIR", "", 1);
  unsetenv("TMP");
  unsetenv("TEMP");
  unsetenv("TEMPDIR");
  EXPECT_EQ(*TemporaryDirectory(), "/tmp");
}

}  // namespace
}  // namespace moepack
