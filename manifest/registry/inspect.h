// What a manifest says, on one page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/open_store.h"
#include "manifest/registry/stored_manifest.h"

namespace moepack::registry {

struct Inspection {
  enum class Kind : uint8_t { kSet, kView, kOther, kIndex };
  struct Part {  // all layers of one role
    std::string role;
    uint64_t files = 0, bytes = 0;
  };
  struct Node {
    uint32_t group = 0;
    uint64_t files = 0, bytes = 0;  // of what `pull --group` gets
    uint64_t group_bytes = 0;       // of them, those of the group alone
  };
  Kind kind = Kind::kOther;
  StoredManifest manifest;
  std::string artifact_type;      // "" for none
  Annotations annotations;        // of a set or a view
  std::vector<Part> parts;        // in layer order; role "" for layers without one
  std::vector<Node> nodes;        // of a set or a view
  std::string config;             // text of the ModelPack config; "" if there is none
  std::vector<std::string> tags;  // that name this manifest
  std::optional<StoredManifest> signatures;
  uint64_t signature_count = 0;
};

// Reads the manifest, its config and the manifest of its signatures; signatures are counted but not
// verified, and distribution.json is not read. A corrupt manifest of ours is kCorrupt.
Result<Inspection> Inspect(const Reference& reference, const StoreAccess& access);

}  // namespace moepack::registry
