// Gives manifests more tags, and removes tags.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store_report.h"

namespace moepack::registry {

// Gives the manifest that `reference` names, of any kind, more tags in the same store. A tag that
// names a different manifest is kInvalidArgument without `force`, and so are two tags that are the
// same. The report has no blobs.
Result<StoreReport> AddTags(const Reference& reference, const std::vector<std::string>& tags,
                            const PutOptions& options);

struct RemovedTags {
  std::vector<Tagged> tags;        // in a dry run, those that would be removed
  std::vector<std::string> other;  // that the manifest of `reference` still has
};
// Removes the tag of `reference`, and those of the set's node views derived from it. Blobs stay
// until CollectGarbage. Only for layouts on this machine: kUnsupported elsewhere. kInvalidArgument
// for a reference with a digest or without a tag.
Result<RemovedTags> RemoveTags(const Reference& reference, const PutOptions& options);

}  // namespace moepack::registry
