// What completes moepack's words in a shell: the files of tools/completion.
#pragma once

namespace moepack::cli {

struct CompletionScript {
  const char *shell, *text;
};
extern const CompletionScript kCompletionScripts[3];

}  // namespace moepack::cli
