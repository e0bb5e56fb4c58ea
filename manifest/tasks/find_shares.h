// The directories in which machines leave their shares of one job, for `join`.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::manifest {

struct ShareKind {
  const char* record;       // the file that the directory of a share has
  std::string_view suffix;  // of its name, where it is in a directory that is named
  const char* what;         // "tasks of a profile"
  const char* hint;         // if inputs of this kind are mixed with others
};
struct FoundShare {
  std::string directory;
  bool named = false;  // as an input, and not found in one
};
// The shares that `inputs` name, and those in directories that they name, in that order; empty if
// no input has one. kInvalidArgument if some have and others have not.
Result<std::vector<FoundShare>> FindShares(const std::vector<std::string>& inputs,
                                           const ShareKind& kind);
// The error for inputs of which some are of this kind.
Error MixedInputs(const std::string& without, const std::string& with, const ShareKind& kind);

// kNotFound, naming those that are missing, unless `there` are all numbers below `count`.
// `directory` is that of a task that is there; what is begun beside it is named, too.
Status CheckAllThere(const std::string& directory, uint32_t count, const std::set<uint32_t>& there);

}  // namespace moepack::manifest
