#include "tools/complete.h"

#include <gmock/gmock.h>

#include "libshard/base/text/text.h"
#include "tests/tools/run_moepack.h"
#include "tools/base/command.h"

namespace moepack::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// The words that are offered behind a command line, without their meanings.
std::vector<std::string> Offered(const Workspace& workspace, const std::string& words) {
  const ToolRun run = workspace.Moepack("__complete " + words);
  EXPECT_EQ(run.status, 0) << run.err;
  std::vector<std::string> offered;
  for (const std::string& line : Split(run.out, '\n')) {
    if (!line.empty()) offered.push_back(line.substr(0, line.find('\t')));
  }
  return offered;
}

TEST(Complete, OffersCommandsFirst) {
  const Workspace workspace;
  EXPECT_THAT(Offered(workspace, "ver"), ElementsAre("verify", "version"));
  EXPECT_THAT(Offered(workspace, "--v"), ElementsAre("--version"));
  EXPECT_THAT(Offered(workspace, "help bu"), ElementsAre("build"));
  EXPECT_THAT(Offered(workspace, "help build ''"), IsEmpty());
  EXPECT_THAT(Offered(workspace, "nonsense ''"), IsEmpty());
}

TEST(Complete, OffersTheValuesOfOptions) {
  const Workspace workspace;
  EXPECT_THAT(Offered(workspace, "build SRC --quantize Q4_K_"), ElementsAre("Q4_K_S", "Q4_K_M"));
  EXPECT_THAT(Offered(workspace, "build SRC --experts-type q8"), ElementsAre("q8_0"));
  EXPECT_THAT(Offered(workspace, "build SRC --format ''"), ElementsAre("safetensors", "gguf"));
  EXPECT_THAT(Offered(workspace, "run --executor ''"), Contains("cpu"));
  EXPECT_THAT(Offered(workspace, "plan --partition ''"), Contains("session"));
  EXPECT_THAT(Offered(workspace, "plan --sweep --recipes Q8_0,Q6"), ElementsAre("Q8_0,Q6_K"));
  EXPECT_THAT(Offered(workspace, "verify --format=j"),
              ElementsAre("--format=json", "--format=junit"));
  EXPECT_THAT(Offered(workspace, "verify --format = j"), ElementsAre("json", "junit"));
  EXPECT_THAT(Offered(workspace, "statistics me"), ElementsAre("merge"));
  EXPECT_THAT(Offered(workspace, "completion ''"), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Offered(workspace, "build SRC -o ''"), IsEmpty()) << "the shell offers files";
}

TEST(Complete, OffersTheGroupsAndOverlaysOfADistribution) {
  const Workspace workspace;
  ASSERT_EQ(workspace
                .Moepack("shard-experts fixtures/tiny-moe --groups 3 --overlay-file "
                         "fixtures/tiny-overlay.json -o out")
                .status,
            0);
  EXPECT_THAT(Offered(workspace, "assemble out --group ''"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(Offered(workspace, "assemble out -o n --overlay ''"), Contains("none"));
  EXPECT_THAT(Offered(workspace, "run out --overlay ''"), ElementsAre("generalists-1"));
  EXPECT_THAT(Offered(workspace, "assemble nothing --group ''"), IsEmpty());
}

TEST(Complete, OffersEveryOptionWithAMeaningOfItsOwn) {
  const Workspace workspace;
  for (const auto& [section, command] : kListedCommands) {
    const ToolRun run = workspace.Moepack(Cat("__complete ", command->name, " -"));
    std::map<std::string, std::string> options;  // by meaning; names of one option share it
    for (const std::string& line : Split(run.out, '\n')) {
      if (line.empty()) continue;
      const size_t tab = line.find('\t');
      ASSERT_NE(tab, line.npos) << line;
      options[line.substr(tab + 1)] += line.substr(0, tab) + " ";
    }
    size_t labels = 0;
    for (const std::string& line :
         Split(workspace.Moepack(Cat(command->name, " --help")).out, '\n'))
      labels += line.starts_with("  -") ? 1 : 0;
    EXPECT_EQ(options.size(), labels) << command->name << ": two options say the same";
  }
}

TEST(Complete, TheScriptsOfTheShellsAreThoseThatAreInstalled) {
  const Workspace workspace;
  for (const std::string shell : {"bash", "zsh", "fish"})
    EXPECT_EQ(workspace.Moepack("completion " + shell).out,
              ReadFile(MOEPACK_SOURCE_DIR "/tools/completion/moepack." + shell));
  EXPECT_THAT(workspace.Moepack("completion tcsh").err,
              testing::HasSubstr("expected one of bash, zsh, fish, found \"tcsh\""));
}

}  // namespace
}  // namespace moepack::cli
