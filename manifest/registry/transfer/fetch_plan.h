// Fetches many files from other machines at once, in bounded memory.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"
#include "manifest/registry/transfer/fetch_file.h"

namespace moepack::registry {

struct FetchItem {
  // Called when its turn comes, because opening is a request.
  std::function<Result<ByteSourcePtr>()> open;
  StatedContent stated;
  std::string name;  // in the directory, '/' between parts; each once
};

// Fetches all files, as FetchFile does, the largest first. Before the first byte the disk must have
// room for what is missing plus one percent (kIo). Connections and progress are those of all files
// together. The first error stops the others; fetched bytes
// stay as after FetchFile. The caller omits files that already exist. The reports are in the order
// of the items.
Result<std::vector<FetchReport>> FetchFiles(const std::vector<FetchItem>& items,
                                            const InsideDirectory& directory,
                                            const FetchOptions& options);

// Only the check for room, for a dry run.
Status CheckRoomFor(const std::vector<FetchItem>& items, const InsideDirectory& directory);

}  // namespace moepack::registry
