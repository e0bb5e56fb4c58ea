// The files of a directory and their digests, as OpenSSF Model Signing lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"

namespace moepack::registry {

struct FileDigest {
  std::string name;    // relative to the directory, with '/' between parts
  std::string sha256;  // 64 hexadecimal digits
  bool operator==(const FileDigest&) const = default;
};

struct HashedDirectory {
  std::vector<FileDigest> files;  // sorted by the parts of their names: "a/x" comes before "a-b/x"
  uint64_t bytes = 0;
};

struct HashOptions {
  size_t jobs = 0;  // threads; 0 for twice the cores
  OnProgress progress = {};
};

// Whether `ignored` names this file, or a directory around it.
bool IsIgnored(const std::string& name, const std::vector<std::string>& ignored);

// Reads every file below `directory` that is not ignored. kUnsupported for a link, a pipe or a name
// that JSON cannot hold: what such a thing means depends on the machine.
Result<HashedDirectory> HashDirectory(const std::string& directory,
                                      const std::vector<std::string>& ignored,
                                      const HashOptions& options);

// SHA-256 of the concatenated digests' bytes: it vouches for the whole list.
std::string RootDigest(const std::vector<FileDigest>& files);

}  // namespace moepack::registry
