// Another process writes an output while a command runs: nothing of either is lost.
#include <gmock/gmock.h>

#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kTheirs = "precious";

class OutputsTaken : public testing::Test {
 protected:
  void SetUp() override {
    const ToolRun made =
        workspace_.Moepack("quantize fixtures/tiny-moe --recipe BF16 -o model.gguf");
    ASSERT_EQ(made.status, 0) << made.err;
  }
  // Runs the command, and writes `name` once it has checked its outputs and loads the model.
  ChildEnd RunBeside(const std::vector<std::string>& words, const std::string& name) {
    ChildProcess child(workspace_.path(), words);
    EXPECT_TRUE(child.WaitUntilMapped("model.gguf"));
    WriteAll(workspace_ / name, kTheirs);
    return child.Wait();
  }
  Workspace workspace_;
};

TEST_F(OutputsTaken, ProfileKeepsWhatItCannotName) {
  const std::vector<std::string> words = {"profile",   "model.gguf", "--text",  "README.md",
                                          "-o",        "stats.json", "--trace", "trace.csv",
                                          "--imatrix", "im.gguf"};
  for (const std::string taken : {"stats.json", "trace.csv", "im.gguf"}) {
    const ChildEnd end = RunBeside(words, taken);
    EXPECT_EQ(end.status, 2) << taken << "\n" << end.err;
    EXPECT_THAT(end.err, HasSubstr(taken + " already exists, and is not what this run wrote"));
    EXPECT_THAT(end.err, HasSubstr("what was written is kept as " + taken + ".kept-1"));
    EXPECT_EQ(ReadFile(workspace_ / taken), kTheirs);
    for (const std::string name : {"stats.json", "trace.csv", "im.gguf"}) {
      const std::string mine = name == taken ? name + ".kept-1" : name;
      EXPECT_GT(ReadFile(workspace_ / mine).size(), 100u) << taken << " taken: " << mine;
      fs::remove(workspace_ / mine);
    }
    fs::remove(workspace_ / taken);
  }
}

TEST_F(OutputsTaken, WithForceProfileReplacesIt) {
  const ChildEnd end =
      RunBeside({"profile", "model.gguf", "--text", "README.md", "-o", "stats.json", "--force"},
                "stats.json");
  EXPECT_EQ(end.status, 0) << end.err;
  EXPECT_NE(ReadFile(workspace_ / "stats.json"), kTheirs);
}

TEST_F(OutputsTaken, ExperimentDoesNotReplaceIt) {
  const ChildEnd end = RunBeside({"experiment", "model.gguf", "--text", "README.md", "--eligible",
                                  "8", "--strategies", "contiguous", "-o", "e.json"},
                                 "e.json");
  EXPECT_NE(end.status, 0) << end.err;
  EXPECT_THAT(end.err, HasSubstr("e.json"));
  EXPECT_EQ(ReadFile(workspace_ / "e.json"), kTheirs);
}

}  // namespace
}  // namespace moepack::cli
