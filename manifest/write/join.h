// Makes one distribution of several that hold parts of it.
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
  // How bundles get into the output; assets are always copied. REQUIRES: not kSymlink, since no
  // link may lead out of a distribution.
  LinkKind link = LinkKind::kAuto;
  PackOptions pack;      // its jobs and progress
  bool force = false;    // replace an existing output
  bool dry_run = false;  // say what would be written
};

struct JoinReport {
  struct File {
    std::string name;
    uint64_t bytes = 0;
    std::string from = {};  // the input; "" for what is written anew
    std::string link = {};  // "hardlink", ...; "" for a file of its own, and in a dry run
  };
  Manifest manifest;
  std::vector<File> files;            // that were (or would be) written, with the manifest
  std::vector<std::string> absent;    // what shard-experts --only takes to make the rest
  std::vector<std::string> warnings;  // about what was left on the disk
  uint64_t total_bytes() const;
};

// Joins two or more distributions (JoinParts) at `out`: the directory is, file by file, the one
// that a single run writes that makes all these parts. Sizes of the inputs' files are checked
// first, and SHA-256 of what was linked or copied before the output appears (kMismatch). An `out`
// that is, holds or lies inside an input is refused.
Result<JoinReport> JoinDistributions(const std::vector<std::string>& inputs, const std::string& out,
                                     const JoinOptions& options);

}  // namespace moepack::manifest
