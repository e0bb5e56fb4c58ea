#include "libshard/format/side_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"

namespace moepack {
namespace {

using testing::HasSubstr;

void PutSideFile(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

class SideFilesTest : public testing::Test {
 protected:
  SideFilesTest() {
    PutSideFile(dir_ / "config.json", "{}");
    PutSideFile(dir_ / "m.safetensors.index.json", "{}");
    PutSideFile(dir_ / "tokenizer.json", "{}");
  }
  void ExpectChanged(const SideFiles& noted, const std::string& name) {
    const Status status = noted.CheckUnchanged();
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    EXPECT_THAT(status.error().message, HasSubstr(name + ": the file was changed while it was"));
  }
  fixtures::TempDir dir_;
  const SourceTreePtr tree_ = std::make_shared<LocalTree>(dir_.path());
};

TEST_F(SideFilesTest, NoticesRewrittenMissingAndNewFiles) {
  const SideFiles before = SideFiles::Note(tree_);
  EXPECT_TRUE(before.CheckUnchanged());
  for (const char* name : {"config.json", "m.safetensors.index.json", "tokenizer.json"}) {
    const SideFiles noted = SideFiles::Note(tree_);
    PutSideFile(dir_ / name, "{ }");
    ExpectChanged(noted, name);
  }
  const SideFiles noted = SideFiles::Note(tree_);
  PutSideFile(dir_ / "tokenizer.model", "x");
  ExpectChanged(noted, "tokenizer.model");
  const SideFiles with_model = SideFiles::Note(tree_);
  fs::remove(dir_ / "tokenizer.model");
  ExpectChanged(with_model, "tokenizer.model");
}

// As a download does: the name stays, but the file is another one.
TEST_F(SideFilesTest, NoticesALinkWithANewTarget) {
  fs::rename(dir_ / "config.json", dir_ / "blob-1");
  PutSideFile(dir_ / "blob-2", "{}");
  fs::create_symlink("blob-1", dir_ / "config.json");
  const SideFiles noted = SideFiles::Note(tree_);
  EXPECT_TRUE(noted.CheckUnchanged());
  fs::remove(dir_ / "config.json");
  fs::create_symlink("blob-2", dir_ / "config.json");
  ExpectChanged(noted, "config.json");
}

TEST_F(SideFilesTest, FollowsAConfigInAnotherDirectory) {
  PutSideFile(dir_ / "model.gguf", "x");
  PutSideFile(dir_ / "other.json", "{}");
  const SideFiles noted = SideFiles::Note(tree_, (dir_ / "other.json").string());
  PutSideFile(dir_ / "model.gguf", "xx");
  EXPECT_TRUE(noted.CheckUnchanged()) << "weights are checked elsewhere";
  PutSideFile(dir_ / "other.json", "{ }");
  ExpectChanged(noted, "other.json");
}

}  // namespace
}  // namespace moepack
