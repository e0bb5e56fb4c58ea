// What a run is about to write, before a byte of it is: for tasks that each write a share of it
// (manifest/tasks).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/format/checkpoint.h"
#include "libshard/format/side_files.h"
#include "manifest/write/bundle.h"

namespace moepack::manifest {

struct Draft {
  std::vector<SourceFile> sources;  // that are read
  WritePlan files;
  // Without bundles and assets. None: the files are one GGUF, and not a distribution.
  std::optional<Manifest> manifest;
  // Of the side files before the model was opened; none: they are bundles, or nothing is known.
  std::optional<SideFiles> noted;
  SourceTreePtr assets_from;  // of files.assets
  std::string assets_folder;  // in that tree
  // Whether the source has assets, if that decides what is absent.
  std::optional<bool> source_has_assets;
};

// The draft of WriteDistribution. Refuses `out` where that does, but does not look at what is
// there.
Result<Draft> DraftDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                const WriteOptions& options);

}  // namespace moepack::manifest
