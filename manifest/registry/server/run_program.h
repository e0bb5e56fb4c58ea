// Runs another program, hands it a few words and takes what it prints.
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
  int status = 0;  // what it returned; 128 and the signal that ended it
  std::string output, errors;
};

// Looks for `words[0]` in PATH and runs it with the other words: without a shell, with no open file
// but its three streams, in a process group of its own. `input`, at most kMostProgramInput, is its
// standard input. Of what it prints as errors the first 4 KiB are kept. When this returns the
// program has ended: it is killed, with all of its group, as it takes too long or prints too much.
// Errors: kNotFound when there is no such program, kUnavailable for one that is too slow, kCorrupt
// for one that prints too much, kIo, kInterrupted. They begin with words[0].
Result<ProgramRun> RunProgram(const std::vector<std::string>& words, std::string_view input,
                              const ProgramLimits& limits = {});

}  // namespace moepack::registry
