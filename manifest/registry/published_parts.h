// The distribution on this machine that is about to be published, and the conditions it must meet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/result.h"
#include "manifest/registry/artifact/distribution_parts.h"

namespace moepack::registry {

// What is read of it before anything is planned.
struct PublishedParts : DistributionParts {
  std::shared_ptr<const LocalTree> tree;
};
Result<PublishedParts> ReadPublished(const std::string& distribution);

// kInvalidArgument if parts are absent, unless that is allowed.
Status CheckWhole(const std::string& distribution, const std::vector<std::string>& absent,
                  bool allow_incomplete);
// kNotFound, or kMismatch for a file of another size; its bytes are not checked.
Status CheckPublishedSize(const PublishedParts& parts, const std::string& file, uint64_t bytes);

}  // namespace moepack::registry
