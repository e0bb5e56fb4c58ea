// Where a command may write: never over its own input, over nothing else unless told to.
#pragma once

#include <string>

#include "libshard/file.h"
#include "libshard/result.h"

namespace manifest {

// kInvalidArgument when `out` is `source` or a directory that holds it.
shard::Status CheckOutputApart(const std::string& out, const shard::fs::path& source);

// The error for an output that is there already.
shard::Error OutputExists(const std::string& out);

}  // namespace manifest
