// Gives manifests more tags, and takes tags away.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/open_store.h"
#include "manifest/registry/store_report.h"

namespace moepack::registry {

struct TagOptions {
  bool views = true;   // also the node views of a set, under "<tag>-gNNN"
  bool force = false;  // move tags that name another manifest
  bool dry_run = false;
  StoreAccess access = {};
};

// Gives the manifest that `reference` names, of whatever kind it is, more tags in the same store. A
// tag that names another manifest is kInvalidArgument without `force`. The report has no blobs.
Result<StoreReport> AddTags(const Reference& reference, const std::vector<std::string>& tags,
                            const TagOptions& options);

struct RemovedTags {
  std::vector<Tagged> tags;        // in a dry run those that would be removed
  std::vector<std::string> other;  // that the manifest of `reference` still has
};
// Takes the tag of `reference` away, and those of the set's node views that are made of it. Blobs
// stay until CollectGarbage. Of layouts of this machine only: kUnsupported elsewhere.
// kInvalidArgument for a reference with a digest or without a tag.
Result<RemovedTags> RemoveTags(const Reference& reference, const TagOptions& options);

}  // namespace moepack::registry
