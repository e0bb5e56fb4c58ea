// Runs another program, passes it a few words and reads what it prints.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::registry {

inline constexpr size_t kMostProgramInput = 4096;  // bytes; a pipe holds them without a reader

struct ProgramLimits {
  std::chrono::milliseconds time{15'000};
  size_t output = 64u << 10;  // bytes
};

struct ProgramRun {
  int status = 0;  // its exit status; 128 plus the signal that ended it
  std::string output, errors;
};

// Looks for `words[0]` in PATH and runs it with the other words: without a shell, with no open
// files but its three streams, in its own process group. `input`, at most kMostProgramInput, is its
// standard input. The first 4 KiB of its error output are kept. When this returns, the program has
// exited: if it takes too long or prints too much, it is killed with its whole group. Errors:
// kNotFound if there is no such program, kUnavailable for one that is too slow, kCorrupt for one
// that prints too much, kIo, kInterrupted. They begin with words[0].
Result<ProgramRun> RunProgram(const std::vector<std::string>& words, std::string_view input,
                              const ProgramLimits& limits = {});

}  // namespace moepack::registry
