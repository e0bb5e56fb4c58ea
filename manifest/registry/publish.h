// Puts a distribution into an image layout or a registry.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/open_store.h"
#include "manifest/registry/store_report.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

struct PublishOptions {
  // How bundles get into a layout; small files are always copied, because people edit them.
  // REQUIRES: not kSymlink.
  manifest::LinkKind link = manifest::LinkKind::kAuto;
  bool views = true;              // also one manifest per group, under "<tag>-gNNN"
  bool allow_incomplete = false;  // publish the parts that are there
  bool force = false;             // move tags that name a different manifest
  // More tags for the same manifests, which are moved without `force`; those of views end in
  // "-gNNN".
  std::vector<std::string> moving_tags = {};
  bool dry_run = false;
  StoreAccess access = {};
  PackOptions pack = {};  // its jobs and progress
};

using PublishReport = StoreReport;

// Publishes a distribution on this machine under the tag of `to`, by default kDefaultTag. Equal
// distributions give equal digests. Every file is checked against its SHA-256 while it is placed
// (kMismatch); tags, which alone make manifests visible, are set at the very end. A tag that names
// a different manifest is kInvalidArgument without `force`, and so are an incomplete distribution
// without `allow_incomplete`, a reference with a digest, and two tags that are the same.
Result<PublishReport> Publish(const std::string& distribution, const Reference& to,
                              const PublishOptions& options);

}  // namespace moepack::registry
