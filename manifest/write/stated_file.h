// Compares whole files with the digests that a manifest states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/pack/pack.h"

namespace moepack::manifest {

// A file and the SHA-256 that the manifest states. If a copy on this machine is read instead,
// errors name its source.
struct StatedFile {
  SourceTreePtr tree;
  std::string file;
  uint64_t size = 0;
  std::string sha256;
  fs::path copy = {};
};
// kMismatch unless `sha256`, which was found, is the stated one.
Status CheckDigest(const StatedFile& file, const std::string& sha256);
// Reads each file once, several at a time. kMismatch for the first that differs. Uses jobs and
// progress of the options.
Status CheckFileDigests(const std::vector<StatedFile>& files, const PackOptions& options);

}  // namespace moepack::manifest
