// The groups of a published set, according to its manifest alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/oci_manifest.h"

namespace moepack::registry {

// The groups whose files are all there according to a manifest of ours, and that have a layer in
// it. The manifest may be hostile: kCorrupt if it has no valid list of groups.
Result<std::vector<uint32_t>> GroupsOf(const std::string& where, const OciManifest& oci);
uint64_t BytesOf(const std::vector<BlobRecord>& layers);
// Those of `layers` whose bytes must be fetched by a client that has `before`, each digest once.
std::vector<BlobRecord> NewLayers(const std::vector<BlobRecord>& before,
                                  const std::vector<BlobRecord>& layers);

}  // namespace moepack::registry
