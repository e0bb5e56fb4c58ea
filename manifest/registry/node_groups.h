// The groups of a published set, as its manifest alone tells them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/oci_manifest.h"

namespace moepack::registry {

// The groups whose files a manifest of ours says are all there, and of which it has a layer. The
// manifest may be hostile: kCorrupt for what is no list of groups.
Result<std::vector<uint32_t>> GroupsOf(const std::string& where, const OciManifest& oci);
uint64_t BytesOf(const std::vector<BlobRecord>& layers);
// Those of `layers` whose bytes whoever has `before` must fetch, each digest once.
std::vector<BlobRecord> NewLayers(const std::vector<BlobRecord>& before,
                                  const std::vector<BlobRecord>& layers);

}  // namespace moepack::registry
