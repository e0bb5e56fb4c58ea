// How blobs are sent to a registry: the options of commands that write to one.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "libshard/base/result.h"
#include "manifest/registry/server/upload.h"

namespace moepack::cli {

// --upload, --chunk-size and --mount-from. Chunked uploads are noted in
// $XDG_STATE_HOME/moepack/uploads (~/.local/state), so that they can be resumed after the process
// ends.
void AddUploadOptions(CLI::App& app, registry::UploadOptions& upload);

// Refuses options that have no effect because `place`, where blobs go, is not a registry, or
// because of each other.
Status CheckUploadUse(const registry::UploadOptions& upload, bool is_registry,
                      const std::string& place);

}  // namespace moepack::cli
