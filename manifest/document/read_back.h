// distribution.json before it is written: it is read back as its reader will read it, and written a
// part at a time. docs/architecture.md, "What a writer accepts its reader accepts".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/inside_directory.h"
#include "libshard/pack/slice.h"
#include "manifest/document/manifest.h"

namespace manifest {

// kUnsupported, with the reader's reason, when ParseManifest would refuse what WriteManifest makes
// of this, or would read something else. Tensors are read a few at a time, so it takes little
// memory.
Status ReadBackManifest(const Manifest& manifest);
// The same before a byte is packed; `files` stand for the future bundles.
Status ReadBackPlanned(const Manifest& manifest, const std::vector<shard::OutputFile>& files,
                       const std::string& format);

using ManifestSink = std::function<Status(std::string_view text)>;
// Gives the text of WriteManifest to `sink` in parts; the first error of `sink` ends it.
Status StreamManifest(const Manifest& manifest, const ManifestSink& sink);
// Writes distribution.json there with the text of WriteManifest, which is never held whole.
Status WriteManifestFile(const shard::InsideDirectory& directory, const Manifest& manifest);

}  // namespace manifest
