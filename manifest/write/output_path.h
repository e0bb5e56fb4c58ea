// Where a command may write: never over its own input, and over other files only when told to.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/file.h"
#include "libshard/base/result.h"
#include "libshard/base/staging.h"

namespace manifest {

// kInvalidArgument when `out` is `source`, a directory that holds it, a file inside it, or a
// directory that holds one of `files`, which are read too. Links are followed.
shard::Status CheckOutputApart(const std::string& out, const shard::fs::path& source,
                               const std::vector<shard::fs::path>& files = {});

// The same for a distribution as input, which nothing may be added to: also kInvalidArgument when
// `out` is anywhere inside it.
shard::Status CheckOutsideDistribution(const std::string& out, const shard::fs::path& distribution,
                                       const std::vector<shard::fs::path>& files = {});

// For an output that already exists: kInvalidArgument unless `force` is set and it is an empty
// directory or one that moepack wrote; only these are replaced.
shard::Status CheckReplaceable(const std::string& out, bool force);

// For a dry run, which needs no --force: refuses what CheckReplaceable refuses even with it.
shard::Status CheckDryOutput(const std::string& out);

// Recognises what moepack writes: a distribution with the files that its manifest lists, or a node
// with its files, and nothing else.
shard::OwnOutput OwnOutput();

}  // namespace manifest
