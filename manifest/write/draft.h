// What a run will write, before a byte is written: for tasks that each write a share of it
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
  // MoeModel::Version of the source, which tells apart weights behind equal headers; the manifest
  // of a distribution has it already.
  std::string source_version;
  WritePlan files;
  // Without bundles and assets. No value: the files are one GGUF, not a distribution.
  std::optional<Manifest> manifest;
  // The side files before the model was opened; no value: they are bundles, or nothing is known.
  std::optional<SideFiles> noted;
  SourceTreePtr assets_from;  // of files.assets
  std::string assets_folder;  // in that tree
  // Whether the source has assets, if that determines what is absent.
  std::optional<bool> source_has_assets;
};

// The draft of WriteDistribution. Refuses the same values of `out`, but does not check what exists
// there.
Result<Draft> DraftDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                const WriteOptions& options);

}  // namespace moepack::manifest
