// Puts files of distributions unchanged into one that is being written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/files/staging.h"
#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "manifest/write/join_parts.h"
#include "manifest/write/link_file.h"

namespace moepack::manifest {

// kMismatch for a file whose size is not the stated one. Opening a file through its tree refuses
// links that lead out of its distribution.
Status CheckSizes(const std::vector<JoinedFile>& files);
// CheckOutsideDistribution for each of the inputs.
Status CheckOutsideInputs(const std::vector<std::string>& inputs,
                          const std::vector<JoinedFile>& files, const std::string& out);

// Links or copies the files under their names, always copying assets, and returns how each was
// placed. Uses jobs and progress of the options.
Result<std::vector<LinkKind>> PlaceFiles(const std::vector<JoinedFile>& files, LinkKind link,
                                         const PackOptions& options, StagingDirectory& staging);
// Compares what is in the staged directory now with the digests, so that the copies are checked,
// not their sources.
Status CheckPlaced(const std::vector<JoinedFile>& files, const PackOptions& options,
                   const fs::path& staged);

}  // namespace moepack::manifest
