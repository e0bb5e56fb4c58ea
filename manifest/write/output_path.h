// Where a command may write: never over its own input, and over other files only when told to.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/file.h"
#include "libshard/base/result.h"
#include "libshard/base/staging.h"

namespace moepack::manifest {

// kInvalidArgument when `out` is `source`, a directory that holds it, a file inside it, or a
// directory that holds one of `files`, which are read too. Links are followed.
Status CheckOutputApart(const std::string& out, const fs::path& source,
                        const std::vector<fs::path>& files = {});

// The same for a distribution as input, which nothing may be added to: also kInvalidArgument when
// `out` is anywhere inside it.
Status CheckOutsideDistribution(const std::string& out, const fs::path& distribution,
                                const std::vector<fs::path>& files = {});

// For an output that already exists: kInvalidArgument unless `force` is set and it is an empty
// directory or one that moepack wrote; only these are replaced.
Status CheckReplaceable(const std::string& out, bool force);

// For a dry run, which needs no --force: refuses what CheckReplaceable refuses even with it.
Status CheckDryOutput(const std::string& out);

// Recognises what moepack writes: a distribution with the files that its manifest lists, or a node
// with its files, and nothing else.
moepack::OwnOutput OwnOutput();

}  // namespace moepack::manifest
