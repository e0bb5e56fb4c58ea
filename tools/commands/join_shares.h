// `join` of what is not a distribution: parts of a refit, and tasks of `profile`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/write/join.h"
#include "manifest/write/link_file.h"

namespace moepack::cli {

struct SharesToJoin {
  const std::vector<std::string>& inputs;
  const std::string& out;
  std::optional<manifest::LinkKind> link;  // no value: not named
  const manifest::JoinOptions& join;
  bool json = false;
};
// Joins them and reports it. False if the inputs are neither: nothing was done then.
Result<bool> JoinShares(const SharesToJoin& shares);

}  // namespace moepack::cli
