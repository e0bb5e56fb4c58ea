// Where a command may write: never over its own input, over nothing else unless told to.
#pragma once

#include <string>
#include <vector>

#include "libshard/file.h"
#include "libshard/result.h"

namespace manifest {

// kInvalidArgument when `out` is `source`, a directory that holds it, a file inside it, or a
// directory that holds one of `files`, which are what is read. Links are followed.
shard::Status CheckOutputApart(const std::string& out, const shard::fs::path& source,
                               const std::vector<shard::fs::path>& files = {});

// The error for an output that is there already.
shard::Error OutputExists(const std::string& out);

}  // namespace manifest
