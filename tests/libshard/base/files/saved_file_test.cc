#include "libshard/base/files/saved_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using testing::HasSubstr;

TEST(SavedFile, ReplacesWhatItFoundAndWhatItWrote) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "f", "found");
  Result<SavedFile> file = SavedFile::Open(dir / "f");
  ASSERT_TRUE(file);
  for (const char* text : {"first", "second", "third"}) {
    ASSERT_TRUE(file->Write(text));
    EXPECT_EQ(fixtures::ReadFile(dir / "f"), text);
  }
}

TEST(SavedFile, StartsWithoutAFileAndComesBackWhenItIsRemoved) {
  const fixtures::TempDir dir;
  Result<SavedFile> file = SavedFile::Open(dir / "f");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write("first"));
  fs::remove(dir / "f");
  ASSERT_TRUE(file->Write("second"));
  EXPECT_EQ(fixtures::ReadFile(dir / "f"), "second");
}

TEST(SavedFile, KeepsWhatAnotherProcessWroteAndWhatItWouldHaveWritten) {
  for (const char* before : {"", "found"}) {
    const fixtures::TempDir dir;
    if (*before != '\0') fixtures::WriteFile(dir / "f", before);
    Result<SavedFile> file = SavedFile::Open(dir / "f");
    ASSERT_TRUE(file);
    fixtures::WriteFile(dir / "theirs", "of another process");
    fs::rename(dir / "theirs", dir / "f");
    for (const char* text : {"mine", "mine, once more"}) {
      const Status refused = file->Write(text);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
      EXPECT_EQ(refused.error().message,
                (dir / "f").string() + " already exists, and is not what this run wrote");
      EXPECT_THAT(refused.error().hint, HasSubstr("kept as " + (dir / "f.kept-1").string()));
    }
    EXPECT_EQ(fixtures::ReadFile(dir / "f"), "of another process");
    EXPECT_EQ(fixtures::ReadFile(dir / "f.kept-1"), "mine");
    EXPECT_FALSE(fs::exists(dir / "f.kept-2"));
  }
}

TEST(SavedFile, ADirectoryIsRefusedBeforeAnythingRuns) {
  const fixtures::TempDir dir;
  const Result<SavedFile> file = SavedFile::Open(dir.path());
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace moepack
