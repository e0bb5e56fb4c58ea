// The messages of commands about contradictory options and about sources of another kind.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class UsageErrors : public testing::Test {
 protected:
  void ExpectRefusal(const std::string& arguments, const std::string& message) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 2) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
  }
  Workspace workspace_;
};

TEST_F(UsageErrors, ASwitchCannotBeBothOnAndOff) {
  for (const std::string arguments : {"plan fixtures/tiny-moe --groups 2 --uniform --no-uniform",
                                      "plan fixtures/tiny-moe --groups 2 --no-uniform --uniform"})
    ExpectRefusal(arguments, "plan: --uniform and --no-uniform cannot be used together");
  ExpectRefusal("quantize fixtures/tiny-moe --recipe Q8_0 --mtp --no-mtp -o a.gguf",
                "quantize: --mtp and --no-mtp cannot be used together");
  EXPECT_EQ(workspace_.Moepack("plan fixtures/tiny-moe --groups 2 --uniform --uniform").status, 0);
}

TEST_F(UsageErrors, AnOptionWithOneValueMayBeGivenOnlyOnce) {
  ExpectRefusal("plan fixtures/tiny-moe --groups 2 --groups 3",
                "plan: --groups was given 2 times; it can be given once");
  ExpectRefusal("build fixtures/tiny-moe --groups 2 -o a --output b",
                "build: --output was given 2 times; it can be given once");
  ExpectRefusal("plan fixtures/tiny-moe --groups", "plan: --groups needs a value: N");
}

TEST_F(UsageErrors, NotesALayerThatTheModelLacks) {
  const ToolRun some = workspace_.Moepack("list-tensors fixtures/tiny-moe --layer 2,98-99");
  EXPECT_EQ(some.status, 0);
  EXPECT_EQ(some.err, "note: the model has no tensors in layers 98-99\n");
  const ToolRun all = workspace_.Moepack("list-tensors fixtures/tiny-moe --layer 2 --part router");
  EXPECT_EQ(all.err, "");
  EXPECT_EQ(workspace_.Moepack("list-tensors fixtures/tiny-moe --layer 99 --quiet").err, "");
}

TEST_F(UsageErrors, NotesAnExpertThatTheModelLacks) {
  const ToolRun some = workspace_.Moepack("list-tensors fixtures/tiny-moe --expert 15-17");
  EXPECT_EQ(some.status, 0);
  EXPECT_EQ(some.err, "note: the model has no tensors of experts 16-17\n");
  EXPECT_EQ(workspace_.Moepack("list-tensors fixtures/tiny-moe --expert 16").err,
            "note: the model has no tensors of expert 16\n");
  EXPECT_EQ(workspace_.Moepack("list-tensors fixtures/tiny-moe --expert 15").err, "");
}

TEST_F(UsageErrors, ASourceThatIsNotADistributionIsNamedWithTheCommandsThatTakeIt) {
  EXPECT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o a.gguf").status, 0);
  EXPECT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --no-verify -o out").status, 0);
  EXPECT_EQ(workspace_.Moepack("assemble out --group 0 -o node").status, 0);
  for (const std::string command : {"verify @", "diff @ out", "inspect @",
                                    "pull @ --group 0 -o new", "assemble @ --group 0 -o new"}) {
    const auto with = [&](const std::string& path) {
      return std::string(command).replace(command.find('@'), 1, path);
    };
    ExpectRefusal(with("fixtures/tiny-moe"),
                  "fixtures/tiny-moe is a safetensors checkpoint, not a distribution\n"
                  "hint: list-tensors, plan, quantize, run and profile take it; build splits it");
    ExpectRefusal(with("a.gguf"), "a.gguf is a GGUF model, not a distribution");
  }
  ExpectRefusal("assemble node --group 0 -o new", "node is a node, not a distribution");
  std::filesystem::remove(workspace_ / "node/moepack_node.json");
  ExpectRefusal("verify node", "if it is a node, its moepack_node.json is missing");
}

}  // namespace
}  // namespace moepack::cli
