// Runs moepack like a user at a terminal, with progress and all.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "fixtures/temp_dir.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {

// What the terminal shows, both streams together, is in `out`. `arguments` is shell text without
// double quotes, and so is `before`, which comes in front of the program.
inline ToolRun OnATerminal(const Workspace& workspace, const std::string& arguments,
                           const std::string& before = "") {
  const fixtures::TempDir logs;
  const std::string shown = (logs / "shown").string();
  const std::string command =
      "cd '" + workspace.path().string() + "' && script --quiet --return --command \"" + before +
      " '" MOEPACK_BINARY "' " + arguments + "\" '" + shown + "' >/dev/null 2>&1 </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(shown), ""};
}

}  // namespace moepack::cli
