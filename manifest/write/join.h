// Makes one distribution from several that hold parts of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "manifest/document/manifest.h"
#include "manifest/write/link_file.h"

namespace moepack::manifest {

struct JoinOptions {
  // How bundles get into the output; assets are always copied. REQUIRES: not kSymlink, because no
  // link may lead out of a distribution.
  LinkKind link = LinkKind::kAuto;
  PackOptions pack;      // its jobs and progress
  bool force = false;    // replace an existing output
  bool dry_run = false;  // only say what would be written
  bool alone = false;    // one distribution is enough
};

struct JoinReport {
  struct File {
    std::string name;
    uint64_t bytes = 0;
    std::string from = {};  // the input; "" for what is newly written
    std::string link = {};  // "hardlink", ...; "" for a separate file, and in a dry run
  };
  Manifest manifest;
  std::vector<File> files;            // that were (or would be) written, including the manifest
  std::vector<std::string> absent;    // what shard-experts --only needs to make the rest
  std::vector<std::string> warnings;  // about what was left on disk
  uint64_t total_bytes() const;
};

// Joins two or more distributions (JoinParts) at `out`: file by file, the directory is the one that
// a single run making all these parts would write. Sizes of the inputs' files are checked first,
// and the SHA-256 of what was linked or copied before the output appears (kMismatch). An `out` that
// is, contains or is inside an input is refused.
Result<JoinReport> JoinDistributions(const std::vector<std::string>& inputs, const std::string& out,
                                     const JoinOptions& options);

}  // namespace moepack::manifest
