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
  std::string endpoint;     // of S3, "" for that of the environment
  std::string cache;        // the directory of a RangeCache, "" for none
  uint64_t cache_size = 0;  // its limit
  // Files may be read whole from servers that know no ranges, and are kept in memory: 1 GiB in all.
  bool full_download = false;
  // Told what the user should know and what does not stop the work; from any thread.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// REQUIRES: IsAddress(source) (libshard/base/files/not_fetched.h). Source::named has no secrets.
// Errors are those of the trees.
Result<Source> OpenAddress(const std::string& source, const RemoteOptions& options);
// Bytes of files of the tree that came from the cache; 0 for a tree of this machine.
uint64_t BytesFromCache(const SourceTree& tree);

}  // namespace moepack::remote
