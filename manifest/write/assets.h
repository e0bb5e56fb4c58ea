// Assets are the files beside the weights that a runtime needs: config, tokenizer, chat template,
// custom code, licence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/result.h"
#include "manifest/document/asset_names.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

inline constexpr uint64_t kMaxAssetBytes = 256u << 20;

struct Asset {
  std::string name;  // in the checkpoint's directory, and below assets/ in a distribution
  uint64_t size = 0;
};

// Lists the assets of a checkpoint, sorted by name, without those in folders. Weights, indexes and
// files over 256 MB are not assets.
Result<std::vector<Asset>> ListAssets(const SourceTree& checkpoint);

// Copies all of them from `folder` of a tree ("" for a checkpoint) to assets/ of the output, and
// returns their records. kCorrupt for a file whose size has changed since it was listed, or whose
// SHA-256 is not the published one.
struct AssetFolder {
  const SourceTree& tree;
  std::string_view folder;  // "", or ends in '/'
};
Result<std::vector<AssetRecord>> CopyAssets(const AssetFolder& from, StagingDirectory& to,
                                            const std::vector<Asset>& assets);

}  // namespace moepack::manifest
