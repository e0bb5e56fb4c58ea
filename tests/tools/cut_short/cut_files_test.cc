// Files that are truncated while a command uses them: a message and a status, never a signal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class CutFiles : public testing::Test {
 protected:
  void SetUp() override {
    const ToolRun built =
        workspace_.Moepack("build fixtures/tiny-moe --groups 3 --format gguf -o out");
    ASSERT_EQ(built.status, 0) << built.err;
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "The license is the license of the license. ";
    WriteAll(workspace_ / "long.txt", text);
  }

  // Waits until the command has mapped the file, stops it, truncates the file to `bytes`, and lets
  // it continue.
  ChildEnd CutWhileMapped(const std::vector<std::string>& arguments, const std::string& file,
                          uintmax_t bytes) {
    ChildProcess child(workspace_.path(), arguments);
    EXPECT_TRUE(child.WaitUntilMapped(file)) << "the process ended before it mapped the file";
    child.Kill(SIGSTOP);
    fs::resize_file(workspace_ / file, bytes);
    child.Kill(SIGCONT);
    return child.Wait();
  }

  static void ExpectCutSentence(const ChildEnd& end, const std::string& file) {
    EXPECT_EQ(end.signal, 0) << end.err;
    EXPECT_EQ(end.status, 3) << end.out << end.err;
    EXPECT_THAT(end.err, HasSubstr(file + ": the file was cut while it was read"));
  }

  Workspace workspace_;
};

TEST_F(CutFiles, RunReportsATruncatedTrunk) {
  const std::string file = "out/trunk/trunk.gguf";
  ExpectCutSentence(
      CutWhileMapped({"run", "out", "--group", "1", "--prompt", "The license", "-n", "2000"}, file,
                     4096),
      file);
}

TEST_F(CutFiles, EvalReportsATruncatedGroup) {
  const std::string file = "out/groups/002/experts.gguf";
  ExpectCutSentence(CutWhileMapped({"eval", "out", "--text", "long.txt"}, file, 0), file);
}

TEST_F(CutFiles, ProfileReportsATruncatedModel) {
  const std::string file = "out/trunk/trunk.gguf";
  ExpectCutSentence(CutWhileMapped({"profile", "out", "--text", "long.txt", "-o", "s.json"}, file,
                                   fs::file_size(workspace_ / file) - 1),
                    file);
  EXPECT_FALSE(fs::exists(workspace_ / "s.json"));
}

// Its experts are used where they are mapped.
TEST_F(CutFiles, ProfileReportsATruncatedCheckpoint) {
  const std::string file = "model/model-00002-of-00003.safetensors";
  fs::copy(workspace_ / "fixtures/tiny-moe", workspace_ / "model", fs::copy_options::recursive);
  ExpectCutSentence(
      CutWhileMapped({"profile", "model", "--text", "long.txt", "-o", "s.json"}, file, 4096), file);
  EXPECT_FALSE(fs::exists(workspace_ / "s.json"));
}

TEST_F(CutFiles, RefitReportsATruncatedModel) {
  const std::string file = "model/model-00002-of-00003.safetensors";
  fs::copy(workspace_ / "fixtures/tiny-moe", workspace_ / "model", fs::copy_options::recursive);
  ASSERT_EQ(workspace_.Moepack("plan model --groups 3 -o plan.json").status, 0);
  const ChildEnd end = CutWhileMapped(
      {"refit", "model", "--plan", "plan.json", "--text", "long.txt", "-o", "new"}, file, 4096);
  EXPECT_EQ(end.signal, 0) << end.err;
  EXPECT_EQ(end.status, 3) << end.out << end.err;
  // It may also notice that the file changed before it touches what was cut off.
  EXPECT_THAT(end.err, AnyOf(HasSubstr(file + ": the file was cut while it was read"),
                             HasSubstr(file + ": the file was changed while it was read")));
  EXPECT_FALSE(fs::exists(workspace_ / "new"));
}

// It opens the trunk for one group after the other, and may find it truncated while it opens the
// next.
TEST_F(CutFiles, CheckReportsATruncatedPart) {
  const std::string file = "out/trunk/trunk.gguf";
  const ChildEnd end = CutWhileMapped({"check", "out", "--no-assembled"}, file, 8192);
  EXPECT_EQ(end.signal, 0) << end.err;
  EXPECT_EQ(end.status, 3) << end.out << end.err;
  EXPECT_THAT(end.err,
              AllOf(HasSubstr(file + ": "), AnyOf(HasSubstr("the file was cut while it was read"),
                                                  HasSubstr("the file is cut short"))));
}

// What is listed, copied or encoded is read, not mapped: a truncated file can never end the
// process.
TEST_F(CutFiles, CommandsThatComputeNothingNeverMapFiles) {
  const std::vector<std::vector<std::string>> commands = {
      {"list-tensors", "out/trunk/trunk.gguf"},
      {"list-tensors", "fixtures/tiny-moe"},
      {"verify", "out"},
      {"assemble", "out", "--group", "1", "-o", "node"},
      {"shard-experts", "fixtures/tiny-moe", "--groups", "2", "-o", "node"},
      {"build", "fixtures/tiny-moe", "--groups", "2", "--quantize", "Q8_0", "-o", "node"},
      {"quantize", "fixtures/tiny-moe", "--recipe", "Q8_0", "-o", "node"},
      {"publish", "out", "layout:node:v1"}};
  for (const auto& command : commands) {
    for (const char* file : {"trunk.gguf", "experts.gguf", "model-00001-of-00003.safetensors"}) {
      fs::remove_all(workspace_ / "node");
      ChildProcess child(workspace_.path(), command);
      EXPECT_FALSE(child.WaitUntilMapped(file)) << command[0] << " maps " << file;
      EXPECT_EQ(child.Wait().signal, 0) << command[0];
    }
  }
}

}  // namespace
}  // namespace moepack::cli
