// Puts a distribution into an image layout or a registry.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store_report.h"

namespace moepack::registry {

// Publishes a distribution on this machine under the tag of `to`, by default kDefaultTag. Equal
// distributions give equal digests. Every file is checked against its SHA-256 while it is placed
// (kMismatch); tags, which alone make manifests visible, are set at the very end. A tag that names
// a different manifest is kInvalidArgument without `force`, and so are an incomplete distribution
// without `allow_incomplete`, a reference with a digest, and two tags that are the same.
Result<StoreReport> Publish(const std::string& distribution, const Reference& to,
                            const PutOptions& options);

}  // namespace moepack::registry
