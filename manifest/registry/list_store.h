// Lists what a store holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

struct ListedManifest {
  std::string tag;  // "" for one without a tag
  std::string digest;
  bool is_set = false;              // written by `publish`; nothing is known about the others
  bool is_view = false;             // of one group
  bool is_signature = false;        // of another manifest, by its tag
  std::vector<std::string> groups;  // "000", "001"
  std::string overlay_version;      // "" without an overlay
  uint64_t files = 0, bytes = 0;    // of the layers
  std::string problem;              // why the manifest cannot be read; "" if it can
};

// Lists the tags in the store's order, and what the manifests say about themselves; their blobs are
// not checked. A manifest that is corrupt or missing is listed with its problem.
Result<std::vector<ListedManifest>> ListStore(const Store& store);

}  // namespace moepack::registry
