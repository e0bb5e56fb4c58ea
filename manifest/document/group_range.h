// Checks that a distribution has the group that a command was given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "libshard/base/result.h"

namespace moepack::manifest {

// kInvalidArgument ("<path>: group: expected 0 to 2, found 3") unless `group` is below `groups`,
// which is at least 1. Every command that takes a group calls this before it looks for files.
Status CheckGroup(const std::string& path, uint64_t group, size_t groups);

}  // namespace moepack::manifest
