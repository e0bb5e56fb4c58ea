// The exit status of moepack; docs/cli.md has the same table.
#pragma once

#include <array>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitMismatch = 6;

constexpr int ExitCode(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kCorrupt:
      return 3;
    case Code::kUnsupported:
      return 4;
    case Code::kIo:
    case Code::kNotFound:
      return 5;
    case Code::kMismatch:
      return kExitMismatch;
    case Code::kUnavailable:
      return 7;
    case Code::kInterrupted:
      return 130;
  }
  return kExitInternal;
}

struct ExitMeaning {
  int status;
  std::string_view meaning;
};

inline constexpr std::array kExitMeanings = {
    ExitMeaning{0, "done"},
    ExitMeaning{1, "internal error, or out of memory"},
    ExitMeaning{2, "usage: an option, a value or a combination that makes no sense"},
    ExitMeaning{3, "corrupt input: a file contradicts its format or another file"},
    ExitMeaning{4, "unsupported: a valid input that this version does not handle"},
    ExitMeaning{5, "I/O error, or something not found"},
    ExitMeaning{6,
                "a verification or quality check failed, `diff --exit-code` found changes, or "
                "there were warnings with `--strict`"},
    ExitMeaning{7, "a registry or device is unavailable"},
    ExitMeaning{130, "interrupted; a command that only reads dies of the signal itself"},
};

}  // namespace moepack::cli
