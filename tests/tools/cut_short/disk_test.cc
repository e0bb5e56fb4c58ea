// How commands react if the disk, the user's limits or the input's files are not what they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// `moepack ARGUMENTS` in a shell that first runs `before`.
ToolRun AfterShell(const Workspace& workspace, const std::string& before,
                   const std::string& arguments) {
  const fixtures::TempDir logs;
  const std::string err = (logs / "err").string();
  const std::string command = Cat("cd '", workspace.path().string(), "' && (", before, "; '",
                                  MOEPACK_BINARY, "' ", arguments, " 2>'", err, "' >/dev/null)");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, "", ReadFile(err)};
}

// SIGXFSZ would end the process and leave everything it wrote.
TEST(FileSizeLimit, IsAnErrorWithAHintAndNotASignal) {
  const Workspace workspace;
  for (const char* command : {"shard-experts fixtures/tiny-moe --groups 2 -o out",
                              "build fixtures/tiny-moe --groups 2 --quantize Q8_0 -o out",
                              "quantize fixtures/tiny-moe --recipe Q8_0 -o out.gguf"}) {
    const ToolRun run = AfterShell(workspace, "ulimit -f 500", command);
    EXPECT_EQ(run.status, 5) << command;
    EXPECT_THAT(run.err, AllOf(HasSubstr("write at offset"), HasSubstr("ulimit -f"))) << command;
    EXPECT_FALSE(fs::exists(workspace / "out.partial")) << command;
  }
}

// A layer does not fit, and the layers before it are kept.
TEST(FileSizeLimit, LeavesTheCompleteLayersOfACalibration) {
  const Workspace workspace;
  const std::string command =
      "quantize fixtures/tiny-moe --recipe Q4_K_M --calibrate fixtures/texts/manual.md "
      "--most-tokens 400 --context 64 --least-tokens 8 -o out.gguf";
  const ToolRun cut = AfterShell(workspace, "ulimit -f 500", command);
  EXPECT_EQ(cut.status, 5);
  EXPECT_THAT(cut.err, AllOf(HasSubstr("layer-000.bin"), HasSubstr("ulimit -f")));
  EXPECT_FALSE(fs::exists(workspace / "out.gguf"));
  EXPECT_FALSE(fs::exists(workspace / "out.gguf.calibrated/layer-000.bin"));
  const ToolRun later = workspace.Moepack(command);
  EXPECT_EQ(later.status, 0) << later.err;
}

class UnreadableInput : public testing::Test {
 protected:
  // The expected message of every command that reads `name`.
  void ExpectNamed(const std::string& name) {
    for (const char* command : {"quantize fixtures/tiny-moe --recipe BF16 -o out.gguf",
                                "build fixtures/tiny-moe --groups 2 -o out",
                                "build fixtures/tiny-moe --groups 2 --format gguf -o out"}) {
      const ToolRun run = workspace_.Moepack(command);
      EXPECT_EQ(run.status, 5) << command;
      EXPECT_THAT(run.err, HasSubstr(name + ": expected a file, found a link to nothing"))
          << command;
    }
    EXPECT_FALSE(fs::exists(workspace_ / "out"));
    EXPECT_FALSE(fs::exists(workspace_ / "out.gguf"));
  }
  Workspace workspace_;
};

// While a Hub cache is being filled, it has links whose blobs are not there yet.
TEST_F(UnreadableInput, DoesNotMistakeADanglingLinkForAnAbsentFile) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                           "config.json", "added_tokens.json", "chat_template.jinja"}) {
    const fs::path file = workspace_ / "fixtures/tiny-moe" / name;
    const fs::path aside = workspace_ / "aside";
    const bool there = fs::exists(file);
    if (there) fs::rename(file, aside);
    fs::create_symlink("../../blobs/0123", file);
    ExpectNamed(name);
    fs::remove(file);
    if (there) fs::rename(aside, file);
  }
}

}  // namespace
}  // namespace moepack::cli
