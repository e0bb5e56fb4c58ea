// docs/examples/node.c, compiled as C, on a distribution.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ToolRun Example(const Workspace& workspace, const std::string& arguments) {
  const std::string streams = (workspace / "streams").string();
  const std::string command = "cd '" + workspace.path().string() + "' && >'" + streams +
                              ".out' 2>'" + streams + ".err' '" MOEPACK_C_EXAMPLE "' " + arguments;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(streams + ".out"),
          ReadFile(streams + ".err")};
}

TEST(CExample, ScoresThePromptAndGeneratesLikeTheCommand) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 3 -o out --no-verify").status, 0);
  const ToolRun run = Example(workspace, "out 1 'int main('");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("group 0: 0."), HasSubstr("group 2: 0.")));
  const ToolRun command = workspace.Moepack("run out --group 1 --prompt 'int main(' -n 16");
  EXPECT_TRUE(run.out.ends_with(command.out)) << run.out << command.out;
}

TEST(CExample, ReportsErrors) {
  const Workspace workspace;
  const ToolRun run = Example(workspace, "nowhere 1 text");
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("open: "), HasSubstr("nowhere")));
  EXPECT_EQ(Example(workspace, "").status, 2);
}

}  // namespace
}  // namespace moepack::cli
