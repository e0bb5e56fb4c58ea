// Manifests of any kind as stored, and those that belong to one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/any_manifest.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

struct StoredManifest {
  BlobRecord blob;  // with media type and size, without annotations
  std::string text;
};

// Reads a manifest named by a tag or a list, or known only by its digest. kCorrupt if it states
// another type for itself, or if the digest is that of something else. An index is read, too.
Result<StoredManifest> ReadStored(const Store& store, const BlobRecord& blob);
// The one that a reference names: by its digest, otherwise by its tag, otherwise by kDefaultTag.
Result<StoredManifest> FindStored(const Store& store, const Reference& reference);

// A node view of a set.
struct StoredView {
  StoredManifest manifest;
  uint32_t group = 0;
  std::vector<std::string> tags;
};
// The views that the store lists, by group. Reads every listed manifest: a corrupt one of ours is
// an error.
Result<std::vector<StoredView>> FindViews(const Store& store, const std::string& set_digest);

// One view of each group: if there are several, the one with the tag "<tag>-gNNN".
std::vector<StoredView> OneOfEachGroup(std::vector<StoredView> views, const std::string& tag);

// The manifest with the signatures of `digest`; no value if there is none.
Result<std::optional<StoredManifest>> FindStoredSignatures(const Store& store,
                                                           const std::string& digest);

}  // namespace moepack::registry
