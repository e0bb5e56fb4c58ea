// Makes experts that no file of a distribution holds, from its source and with its recipe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// The source of a distribution, and the options with which it was made.
struct OverlaySource {
  std::optional<moepack::Source> source;   // no value: there is none to take experts from
  ModelOptions model;                      // --family, --config
  std::vector<std::string> imatrix_files;  // for all steps of the recipe
  std::string pre;                         // ConvertOptions::pre
};

// A file with the experts, as it would be written. Its tensors borrow the model.
struct MissingExperts {
  std::unique_ptr<MoeModel> model;
  OutputFile file;
};

// Lays out a file with these experts. kMismatch for a source that is another model, and
// kInvalidArgument if an importance matrix of the recipe is missing. REQUIRES: the source is there.
Result<MissingExperts> LayOutMissing(const Manifest& manifest, const LayerExperts& experts_by_layer,
                                     const OverlaySource& source, uint64_t alignment);

}  // namespace moepack::manifest
