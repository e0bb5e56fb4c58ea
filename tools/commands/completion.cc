#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/base/command.h"
#include "tools/base/completion_scripts.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace completion_command {
namespace {

std::vector<std::string> Shells() {
  std::vector<std::string> shells;
  for (const CompletionScript& script : kCompletionScripts) shells.emplace_back(script.shell);
  return shells;
}

Result<int> Run(const std::string& shell) {
  for (const CompletionScript& script : kCompletionScripts) {
    if (shell == script.shell) SHARD_CHECK(WriteResult(script.text));
  }
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish.")->required()->check(OneOf(Shells()));
  return [shell] { return Run(*shell); };
}

}  // namespace
}  // namespace completion_command

constinit const Command kCompletion = {
    "completion",
    "Prints what completes moepack's words in a shell",
    "The shell then offers commands, options and their values: recipes, types, formats, "
    "executors, partitions, and the groups and overlays of a distribution. Packages install the "
    "scripts; otherwise source them in the shell's configuration: `source <(moepack completion "
    "bash)` in ~/.bashrc or ~/.zshrc, `moepack completion fish | source` for fish.",
    {"moepack completion bash", "moepack completion fish"},
    {},
    completion_command::Bind};

}  // namespace moepack::cli
