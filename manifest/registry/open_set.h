// Opens what a reference names, and trusts nothing that a digest does not vouch for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "manifest/document/manifest.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

struct OpenedSet {
  std::string digest;  // of the manifest
  OciManifest oci;
  std::optional<uint32_t> view_group;  // of a node view
  std::string distribution_text;       // of distribution.json
  manifest::Manifest manifest;         // the same, parsed
};

// Reads the manifest that a reference names: by its digest, otherwise by its tag, otherwise by
// kDefaultTag. Only the descriptors of the layers are read.
struct OpenedManifest {
  std::string digest;
  OciManifest oci;
};
Result<OpenedManifest> OpenManifest(const Store& store, const Reference& reference);
// The same for a manifest that the store listed.
Result<OciManifest> OpenListed(const Store& store, const BlobRecord& blob);
// kUnsupported for what a store lists as an index or as something else.
Status CheckIsManifest(const Store& store, const BlobRecord& blob);

// Also reads config and distribution.json, and compares every layer and annotation of ours with the
// distribution: any disagreement is kCorrupt. Layers without a role of ours are ignored.
Result<OpenedSet> OpenSet(const Store& store, const Reference& reference);

}  // namespace moepack::registry
