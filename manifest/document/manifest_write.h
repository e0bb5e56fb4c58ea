// Writes distribution.json piece by piece.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "libshard/base/files/inside_directory.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

using ManifestSink = std::function<Status(std::string_view text)>;
// Passes the text of WriteManifest to `sink` piece by piece. The first error of `sink` ends it.
Status StreamManifest(const Manifest& manifest, const ManifestSink& sink);
// Returns the SHA-256 of the text of WriteManifest.
std::string ManifestDigest(const Manifest& manifest);
// The length of WriteManifest's text in bytes.
uint64_t ManifestBytes(const Manifest& manifest);
// Writes distribution.json with the text of WriteManifest, which is never in memory as a whole.
Status WriteManifestFile(const InsideDirectory& directory, const Manifest& manifest);

}  // namespace moepack::manifest
