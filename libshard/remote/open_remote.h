// From an address to the tree behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"

namespace moepack::remote {

struct RemoteOptions {
  bool plain_http = false;  // http to other machines
  std::string endpoint;     // of S3; "" for that of the environment
  std::string cache;        // the directory of a RangeCache; "" for none
  uint64_t cache_size = 0;  // its limit
  // Files may be read whole from servers without ranges, and are kept in memory: 1 GiB in all.
  bool full_download = false;
  bool has_full_download = false;  // the command has an option for it
  // The caller compares whole files with digests: a server without ETags is no reason to warn.
  bool compared = false;
  // Called, from any thread, with what the user should know but does not stop the work.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// REQUIRES: IsAddress(source) (libshard/remote/scheme.h). Source::named has no secrets.
// Errors are those of the trees.
Result<Source> OpenAddress(const std::string& source, const RemoteOptions& options);
// How many bytes of the tree's files came from the cache; 0 for a tree on this machine.
uint64_t BytesFromCache(const SourceTree& tree);

}  // namespace moepack::remote
