// distribution.json on its way out: read as its reader will before it is written, and written some
// at a time. docs/architecture.md, "What a writer accepts its reader accepts".
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
// of this, or would read something else. Tensors are read some at a time, so that it takes little
// memory.
Status ReadBackManifest(const Manifest& manifest);
// The same before a byte is packed: `files` stand for the bundles that there will be.
Status ReadBackPlanned(const Manifest& manifest, const std::vector<shard::OutputFile>& files,
                       const std::string& format);

using ManifestSink = std::function<Status(std::string_view text)>;
// The text of WriteManifest, some at a time; the first error of `sink` ends it.
Status StreamManifest(const Manifest& manifest, const ManifestSink& sink);
// Writes distribution.json there with the text of WriteManifest, which is never held whole.
Status WriteManifestFile(const shard::InsideDirectory& directory, const Manifest& manifest);

}  // namespace manifest
