// distribution.json, written some at a time.
#pragma once

#include <functional>
#include <string_view>

#include "libshard/base/inside_directory.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

using ManifestSink = std::function<Status(std::string_view text)>;
// The text of WriteManifest, some at a time; the first error of `sink` ends it.
Status StreamManifest(const Manifest& manifest, const ManifestSink& sink);
// Writes distribution.json there with the text of WriteManifest, which is never held whole.
Status WriteManifestFile(const InsideDirectory& directory, const Manifest& manifest);

}  // namespace moepack::manifest
