// Runs every example of the help, those of registries with a local one.
#include <fstream>
#include <sstream>

#include "libshard/base/text/text.h"
#include "tests/remote/support/registry_commands.h"

namespace moepack::remote {
namespace {

// The commands that `moepack --help` lists.
size_t CountCommands(const std::string& help) {
  std::istringstream lines(help);
  size_t commands = 0;
  for (std::string line; std::getline(lines, line);) commands += line.starts_with("  ") ? 1 : 0;
  return commands;
}

class HelpExamples : public RegistryCommands {};

TEST_F(HelpExamples, EveryExampleRuns) {
  const std::string example = "registry.example";
  std::filesystem::remove_all(workspace_ / "out");  // the examples create their own
  // A refit on all calibration text takes longer than everything else; two sessions are enough.
  const std::string texts = workspace_ / "fixtures/texts/calibration.jsonl";
  const std::string all = fixtures::ReadFile(texts);
  std::ofstream(texts) << all.substr(0, all.find('\n', all.find('\n') + 1) + 1);
  std::istringstream reference(Runs("help --markdown").out);
  size_t examples = 0;
  for (std::string line; std::getline(reference, line);) {
    if (!line.starts_with("moepack ")) continue;
    ++examples;
    for (size_t at = line.find(example); at != line.npos; at = line.find(example, at))
      line.replace(at, example.size(), registry_->host());
    const cli::ToolRun run = workspace_.Moepack(line.substr(8));
    EXPECT_EQ(run.status, 0) << line << "\n" << run.err;
    EXPECT_NE(run.out, "") << line;
  }
  const size_t commands = CountCommands(Runs("--help").out);
  EXPECT_GT(commands, 20u);
  EXPECT_EQ(examples, 2 * commands);
}

}  // namespace
}  // namespace moepack::remote
