#include "manifest/output_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"

namespace manifest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputPath : public testing::Test {
 protected:
  OutputPath() {
    fs::create_directories(dir_ / "in/part");
    fixtures::WriteFile(dir_ / "in/config.json", "{}");
    fixtures::WriteFile(dir_ / "in/part/shard", "bytes");
  }
  shard::Status Check(const std::string& out, const std::vector<fs::path>& files = {}) {
    return CheckOutputApart((dir_ / out).string(), dir_ / "in", files);
  }
  std::string Reason(const std::string& out, const std::vector<fs::path>& files = {}) {
    const shard::Status status = Check(out, files);
    EXPECT_FALSE(status) << out;
    if (status) return "";
    EXPECT_EQ(status.error().code, shard::Code::kInvalidArgument);
    return status.error().message;
  }
  fixtures::TempDir dir_;
};

TEST_F(OutputPath, TheInputItselfIsRefusedUnderEveryName) {
  fs::create_directory_symlink(dir_ / "in", dir_ / "link");
  for (const char* out : {"in", "in/", "in/.", "in/part/..", "link", "link/"}) {
    EXPECT_THAT(Reason(out), HasSubstr("found the same")) << out;
  }
}

TEST_F(OutputPath, ADirectoryAroundTheInputIsRefused) {
  EXPECT_THAT(Reason(""), HasSubstr("found a directory around it"));
  EXPECT_THAT(Reason("in/../.."), HasSubstr("found a directory around it"));
}

TEST_F(OutputPath, AFileOfTheInputIsRefused) {
  fs::create_symlink(dir_ / "in/config.json", dir_ / "link");
  EXPECT_THAT(Reason("in/config.json"), HasSubstr("found a file in it"));
  EXPECT_THAT(Reason("link"), HasSubstr("found a file in it"));
}

TEST_F(OutputPath, ADirectoryThatHoldsWhatIsReadIsRefused) {
  EXPECT_THAT(Reason("in/part", {dir_ / "in/part/shard"}), HasSubstr("found what holds"));
  fs::create_directory(dir_ / "blobs");
  fixtures::WriteFile(dir_ / "blobs/digest", "bytes");
  fs::create_symlink(dir_ / "blobs/digest", dir_ / "in/linked");
  EXPECT_THAT(Reason("blobs", {dir_ / "in/linked"}), HasSubstr("found what holds"));
}

TEST_F(OutputPath, OthersAreFineInsideTheInputAndBeside) {
  for (const char* out : {"out", "in/new", "in/part", "in2", "i"}) {
    const shard::Status status = Check(out, {dir_ / "in/config.json"});
    EXPECT_TRUE(status) << status.error().message;
  }
}

TEST(OutputExistsError, NamesTheOutputAndTheWayOut) {
  const shard::Error error = OutputExists("some/where");
  EXPECT_EQ(error.code, shard::Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("some/where: expected nothing there"));
  EXPECT_EQ(error.hint, "use --force to replace it");
}

}  // namespace
}  // namespace manifest
