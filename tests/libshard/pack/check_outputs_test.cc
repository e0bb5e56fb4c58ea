#include "libshard/pack/check_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

OutputFile FileNamed(const std::string& path) {
  OutputFile file;
  file.path = path;
  file.prefix = "header of " + path;
  file.size = file.prefix.size() + 4;
  return file;
}

class CheckMayPublishTest : public testing::Test {
 protected:
  std::string Written(const OutputFile& file, const std::string& tensors = "1234") const {
    fixtures::WriteFile(dir_ / file.path, file.prefix + tensors);
    return (dir_ / file.path).string();
  }
  void ExpectRefused(const std::string& path) const {
    const Status status = CheckMayPublish(dir_.path(), {first_, second_}, false);
    ASSERT_FALSE(status) << path;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_EQ(status.error().message, path + " already exists");
    EXPECT_EQ(status.error().hint, "--force replaces it, and -o names another file");
  }
  fixtures::TempDir dir_;
  const OutputFile first_ = FileNamed("1.gguf"), second_ = FileNamed("2.gguf");
};

TEST_F(CheckMayPublishTest, FreeNamesAndADirectoryThatIsMissingAreNoObstacle) {
  EXPECT_TRUE(CheckMayPublish(dir_.path(), {first_, second_}, false));
  EXPECT_TRUE(CheckMayPublish(dir_ / "new", {first_, second_}, false));
}

TEST_F(CheckMayPublishTest, ALaterFileMayBeThereWithItsSizeAndHeader) {
  Written(second_);
  EXPECT_TRUE(CheckMayPublish(dir_.path(), {first_, second_}, false));
}

TEST_F(CheckMayPublishTest, TheFirstFileMustNotBeThere) { ExpectRefused(Written(first_)); }

TEST_F(CheckMayPublishTest, ALaterFileOfAnotherSetIsRefused) {
  ExpectRefused(Written(second_, "123"));
  ExpectRefused(Written(second_, "12345"));
  OutputFile other = second_;
  other.prefix[0] = 'H';
  ExpectRefused(Written(other));
  fixtures::WriteFile(dir_ / second_.path, "");
  ExpectRefused((dir_ / second_.path).string());
}

TEST_F(CheckMayPublishTest, WhatIsNoFileIsRefusedAndNotOpened) {
  const std::string path = (dir_ / second_.path).string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // opening it would wait
  ExpectRefused(path);
  fs::remove(path);
  Written(FileNamed("elsewhere"));
  fs::create_symlink("elsewhere", path);
  ExpectRefused(path);
}

TEST_F(CheckMayPublishTest, WhatIsReplacedMayBeAnythingButADirectory) {
  const std::string path = Written(second_);
  EXPECT_TRUE(CheckMayPublish(dir_.path(), {first_, second_}, true));
  fs::remove(path);
  fs::create_directory(path);
  for (const bool replace : {false, true}) {
    const Status status = CheckMayPublish(dir_.path(), {first_, second_}, replace);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, path + " is a directory");
  }
}

}  // namespace
}  // namespace moepack
