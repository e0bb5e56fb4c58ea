#include "tools/options/output_file.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "fixtures/temp_dir.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(OutputFile, ANameThatIsTakenIsRefusedWithoutForce) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteFile(dir / "file", "x"));
  fs::create_symlink("missing", dir / "link");
  for (const char* name : {"file", "link"}) {
    const std::string out = (dir / name).string();
    const Status refused = CheckOutputFile(out, {}, false);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().message, out + " already exists");
    EXPECT_TRUE(CheckOutputFile(out, {}, true)) << name;
  }
  EXPECT_TRUE(CheckOutputFile((dir / "free").string(), {}, false));
}

TEST(OutputFile, AnInputADirectoryAndAMissingDirectoryAreRefusedEvenWithForce) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteFile(dir / "in", "x"));
  fs::create_symlink("in", dir / "same");
  const auto message = [&](const char* out) {
    const Status refused = CheckOutputFile((dir / out).string(), {"", (dir / "in").string()}, true);
    return refused ? "" : refused.error().message;
  };
  EXPECT_THAT(message("in"), HasSubstr("in is also an input"));
  EXPECT_THAT(message("same"), HasSubstr("same is also an input"));
  EXPECT_THAT(message("."), HasSubstr("is a directory"));
  EXPECT_THAT(message("none/out"), HasSubstr("lies in a directory that does not exist"));
}

TEST(OutputFile, WhatIsReadWithAModelOfOneFileIsAnInput) {
  const fixtures::TempDir dir;
  std::vector<std::string> files;
  AddModelFiles((dir / "m-00002-of-00003.gguf").string(), files);
  for (const char* name : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf", "config.json"})
    EXPECT_THAT(files, testing::Contains((dir / name).string()));
  files.clear();
  AddModelFiles(dir.path().string(), files);
  AddModelFiles("hf://owner/model", files);
  EXPECT_TRUE(files.empty());
}

TEST(OutputFile, ANameThatCannotBeLookedUpIsAnErrorEvenWithForce) {
  const fixtures::TempDir dir;
  const std::string long_name(300, 'x');
  for (const bool force : {false, true}) {
    const Status refused = CheckOutputFile((dir / long_name).string(), {}, force);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kIo);
    EXPECT_THAT(refused.error().message, HasSubstr("look it up"));
  }
}

}  // namespace
}  // namespace moepack::cli
