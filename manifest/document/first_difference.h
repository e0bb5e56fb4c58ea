// Finds the first place where two JSON values differ.
#pragma once

#include <optional>
#include <string>

#include "libshard/base/text/json.h"

namespace moepack::manifest {

struct Difference {
  std::string thing;  // "partition.groups[1].fill"; `expected` and `found` as in messages
  std::string expected, found;
};

// Returns the first place in the order of `expected`, and no value if both are the same except for
// the order of keys. `thing` is the name of the values themselves; "" for a whole document.
std::optional<Difference> FirstDifference(const std::string& thing, const Json& expected,
                                          const Json& found);

}  // namespace moepack::manifest
