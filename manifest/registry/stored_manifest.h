// Manifests of any kind as a store holds them, and those that belong to one.
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

// Reads a manifest that a tag or a list named, or of which only the digest is known. kCorrupt when
// it says of itself that it is of another type. An index is read, too.
Result<StoredManifest> ReadStored(const Store& store, const BlobRecord& blob);
// The one that a reference names: by its digest, else by its tag, else by kDefaultTag.
Result<StoredManifest> FindStored(const Store& store, const Reference& reference);

// A node view of a set.
struct StoredView {
  StoredManifest manifest;
  uint32_t group = 0;
  std::vector<std::string> tags;
};
// Those that the store lists, by their groups. Reads every manifest that is listed: one of ours
// that is damaged is an error.
Result<std::vector<StoredView>> FindViews(const Store& store, const std::string& set_digest);

// One view of each group: where there are several, that with the tag "<tag>-gNNN".
std::vector<StoredView> OneOfEachGroup(std::vector<StoredView> views, const std::string& tag);

// The manifest that holds the signatures of `digest`; none where there is none.
Result<std::optional<StoredManifest>> FindStoredSignatures(const Store& store,
                                                           const std::string& digest);

// Whether it is a set that `publish` wrote, and no node view.
bool IsSet(const OciManifest& oci);

}  // namespace moepack::registry
