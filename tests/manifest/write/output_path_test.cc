#include "manifest/write/output_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;

class OutputPath : public testing::Test {
 protected:
  OutputPath() {
    fs::create_directories(dir_ / "in/part");
    fixtures::WriteFile(dir_ / "in/config.json", "{}");
    fixtures::WriteFile(dir_ / "in/part/shard", "bytes");
  }
  Status Check(const std::string& out, const std::vector<fs::path>& files = {}) {
    return CheckOutputApart((dir_ / out).string(), dir_ / "in", files);
  }
  std::string Reason(const std::string& out, const std::vector<fs::path>& files = {}) {
    const Status status = Check(out, files);
    EXPECT_FALSE(status) << out;
    if (status) return "";
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    return status.error().message;
  }
  fixtures::TempDir dir_;
};

TEST_F(OutputPath, TheInputItselfIsRefusedUnderEveryName) {
  fs::create_directory_symlink(dir_ / "in", dir_ / "link");
  for (const char* out : {"in", "in/", "in/.", "in/part/..", "link", "link/"}) {
    EXPECT_THAT(Reason(out), HasSubstr(" is the input itself")) << out;
  }
}

TEST_F(OutputPath, ADirectoryAroundTheInputIsRefused) {
  EXPECT_THAT(Reason(""), HasSubstr(" holds the input "));
  EXPECT_THAT(Reason("in/../.."), HasSubstr(" holds the input "));
}

TEST_F(OutputPath, AFileOfTheInputIsRefused) {
  fs::create_symlink(dir_ / "in/config.json", dir_ / "link");
  EXPECT_THAT(Reason("in/config.json"), HasSubstr(" is a file of the input "));
  EXPECT_THAT(Reason("link"), HasSubstr(" is a file of the input "));
}

TEST_F(OutputPath, ADirectoryThatHoldsAnInputIsRefused) {
  EXPECT_THAT(Reason("in/part", {dir_ / "in/part/shard"}), HasSubstr(", which is read"));
  fs::create_directory(dir_ / "blobs");
  fixtures::WriteFile(dir_ / "blobs/digest", "bytes");
  fs::create_symlink(dir_ / "blobs/digest", dir_ / "in/linked");
  EXPECT_THAT(Reason("blobs", {dir_ / "in/linked"}), HasSubstr(", which is read"));
}

TEST_F(OutputPath, OtherPathsInsideOrBesideTheInputAreAccepted) {
  for (const char* out : {"out", "in/new", "in/part", "in2", "i"}) {
    const Status status = Check(out, {dir_ / "in/config.json"});
    EXPECT_TRUE(status) << status.error().message;
  }
}

TEST_F(OutputPath, NothingIsInTheWayOfANewOutput) {
  EXPECT_TRUE(CheckReplaceable((dir_ / "new").string(), false));
  EXPECT_TRUE(CheckReplaceable((dir_ / "new/below").string(), true));
}

TEST_F(OutputPath, AnExistingOutputIsRefusedWithoutForce) {
  fs::create_directories(dir_ / "taken");
  std::ofstream(dir_ / "taken/file") << "x";
  const Status refused = CheckReplaceable((dir_ / "taken").string(), false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().hint, HasSubstr("--force"));
  EXPECT_EQ(refused.error().message,
            (dir_ / "taken").string() +
                " already exists, and holds \"file\", but no distribution.json or "
                "moepack_node.json, by which moepack knows its own files");
}

TEST_F(OutputPath, ForceDoesNotReplaceALostAndFoundOfAnOrdinaryDirectory) {
  fs::create_directories(dir_ / "home/lost+found");
  std::ofstream(dir_ / "home/lost+found/f") << "precious";
  const Status refused = CheckReplaceable((dir_ / "home").string(), true);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("\"lost+found\", but no distribution.json"));
}

TEST_F(OutputPath, AnEmptyDirectoryIsFree) {
  fs::create_directories(dir_ / "empty");
  EXPECT_TRUE(CheckReplaceable((dir_ / "empty").string(), false));
  EXPECT_TRUE(CheckReplaceable((dir_ / "empty").string(), true));
}

TEST_F(OutputPath, ForceReplacesOnlyWhatMoepackWrote) {
  fs::create_directories(dir_ / "home");
  std::ofstream(dir_ / "home/precious") << "x";
  for (const std::string& out :
       {(dir_ / "home").string(), (dir_ / "home/precious").string(), std::string("/dev/null")}) {
    const Status refused = CheckReplaceable(out, true);
    ASSERT_FALSE(refused) << out;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message,
                AnyOf(HasSubstr("moepack did not write it"), HasSubstr("moepack knows its own")));
  }
  for (const char* mark : {"distribution.json", "moepack_node.json"}) {
    std::ofstream(dir_ / "home" / mark) << "{}";
    EXPECT_FALSE(CheckReplaceable((dir_ / "home").string(), true))
        << "the name alone does not make it a directory of moepack";
    fs::remove(dir_ / "home" / mark);
  }
  fs::create_directory_symlink(dir_ / "home", dir_ / "link");
  EXPECT_FALSE(CheckReplaceable((dir_ / "link").string(), true));
}

TEST_F(OutputPath, ForceReplacesANodeThatHoldsOnlyItsFiles) {
  const std::string start = R"("versions": {"model": "0123456789abcdef",
      "shard": "0123456789abcdef", "replica": ""}, "group": 0, "experts": {"*": "0"})";
  const std::string sha(64, 'a');
  const std::string old = R"({"format": "moepack-node", "format_version": "1.0", )" + start + "}";
  const std::string listed = R"({"format": "moepack-node", "format_version": "1.1", )" + start +
                             R"(, "distribution": {"sha256": ")" + sha +
                             R"("}, "tool": {"name": "moepack",
      "version": "1"}, "files": [{"file": "node.gguf", "size": 1, "sha256": ")" +
                             sha + R"("}]})";
  for (const std::string& record : {old, listed}) {
    fs::create_directories(dir_ / "node");
    fixtures::WriteFile(dir_ / "node/moepack_node.json", record);
    fixtures::WriteFile(dir_ / "node/node.gguf", "x");
    const Status fine = CheckReplaceable((dir_ / "node").string(), true);
    EXPECT_TRUE(fine) << fine.error().message;
    for (const char* name : {"my-server.log", "other.gguf"}) {
      if (record == old && std::string(name) == "other.gguf") continue;  // it has no list
      fixtures::WriteFile(dir_ / "node" / name, "x");
      const Status refused = CheckReplaceable((dir_ / "node").string(), true);
      ASSERT_FALSE(refused) << name;
      EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
      EXPECT_THAT(refused.error().message, HasSubstr(std::string("holds \"") + name));
      fs::remove(dir_ / "node" / name);
    }
  }
}

// sign --oms writes it. It would be stale beside other files.
TEST_F(OutputPath, ForceReplacesANodeWithItsSignature) {
  fs::create_directories(dir_ / "node");
  fixtures::WriteFile(dir_ / "node/moepack_node.json",
                      R"({"format": "moepack-node", "format_version": "1.0",
      "versions": {"model": "0123456789abcdef", "shard": "0123456789abcdef", "replica": ""},
      "group": 0, "experts": {"*": "0"}})");
  const std::string golden = MOEPACK_SOURCE_DIR "/fixtures/signing/model/model.sig";
  fs::copy(golden, dir_ / "node/model.sig");
  const Status fine = CheckReplaceable((dir_ / "node").string(), true);
  EXPECT_TRUE(fine) << fine.error().message;
  fs::rename(dir_ / "node/model.sig", dir_ / "node/mine.sig");
  EXPECT_FALSE(CheckReplaceable((dir_ / "node").string(), true));
  fs::remove(dir_ / "node/mine.sig");
  fixtures::WriteFile(dir_ / "node/model.sig", "mine");
  const Status refused = CheckReplaceable((dir_ / "node").string(), true);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("holds \"model.sig\", which moepack did not"));
  fs::remove(dir_ / "node/model.sig");
  fs::create_symlink(golden, dir_ / "node/model.sig");
  EXPECT_FALSE(CheckReplaceable((dir_ / "node").string(), true));
}

TEST_F(OutputPath, AnUnresolvablePathIsAnError) {
  fs::create_symlink("loop", dir_ / "loop");
  const Status status = Check("loop/out");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("loop/out: follow the path: Too many levels"));
}

}  // namespace
}  // namespace moepack::manifest
