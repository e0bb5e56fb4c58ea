// One file of a manifest, for tests that check its contents.
#pragma once

#include <string_view>

#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Null if no bundle is in `file`.
inline const BundleRecord* FindBundle(const Manifest& manifest, std::string_view file) {
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.file == file) return &bundle;
  }
  return nullptr;
}

}  // namespace moepack::manifest
