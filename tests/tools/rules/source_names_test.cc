// What SRC may be, and how commands respond to anything else.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class SourceNames : public testing::Test {
 protected:
  Workspace workspace_;
};

TEST_F(SourceNames, NamesAGitLfsPointerAmongTheTokenizerFiles) {
  WriteAll(workspace_ / "fixtures/tiny-moe/tokenizer.json",
           "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 11422654\n");
  for (const char* command : {"build fixtures/tiny-moe --groups 2 -o out",
                              "quantize fixtures/tiny-moe --recipe Q8_0 -o a.gguf"}) {
    const ToolRun run = workspace_.Moepack(command);
    EXPECT_EQ(run.status, 5) << run.err;
    EXPECT_THAT(run.err, HasSubstr("tokenizer.json: expected the file itself, found a Git LFS "
                                   "pointer to 11.4 MB"));
    EXPECT_THAT(run.err, HasSubstr("git lfs pull"));
  }
}

TEST_F(SourceNames, SuggestsTheAddressForANameOfTheHub) {
  for (const char* command :
       {"list-tensors @", "plan @ --groups 2", "build @ --groups 2 -o out",
        "quantize @ --recipe Q8_0 -o a.gguf", "run @ --tokens 1", "profile @ --text README.md"}) {
    std::string arguments = command;
    arguments.replace(arguments.find('@'), 1, "Qwen/Qwen3-30B-A3B");
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 5) << run.err;
    EXPECT_THAT(run.err, HasSubstr("Hub is named hf://Qwen/Qwen3-30B-A3B\n")) << arguments;
  }
}

TEST_F(SourceNames, CommandsThatReadLocalFilesOnlySayHowToDownloadAnAddress) {
  for (const char* command :
       {"run @ --tokens 1", "profile @ --text README.md", "eval @ --text README.md"}) {
    std::string arguments = command;
    arguments.replace(arguments.find('@'), 1, "hf://Qwen/Qwen3-30B-A3B");
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_THAT(run.err, HasSubstr("hf download Qwen/Qwen3-30B-A3B --local-dir Qwen3-30B-A3B"))
        << arguments;
  }
}

}  // namespace
}  // namespace moepack::cli
