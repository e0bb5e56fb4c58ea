// `publish --to-dir`: the distribution as plain files.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "manifest/registry/publish_files.h"

namespace moepack::cli {

// Lays out the distribution in `out` and prints what was done and how to continue.
Result<int> RunPublishFiles(const std::string& distribution, const std::string& out,
                            const registry::PublishFilesOptions& options, bool json);

}  // namespace moepack::cli
