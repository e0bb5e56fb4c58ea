// The files around the weights that a runtime needs: config, tokenizer, chat template, custom code,
// licence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
#include "libshard/base/staging.h"
#include "manifest/document/manifest.h"

namespace manifest {

// Where they are in a distribution.
inline constexpr std::string_view kAssetDirectory = "assets/";
inline constexpr uint64_t kMaxAssetBytes = 256u << 20;

struct Asset {
  std::string name;  // in the checkpoint's directory, and below assets/ in a distribution
  uint64_t size = 0;
};

// Whether a file of this name is copied as an asset. Nothing else is written to assets/, read back
// from a manifest, or copied into a node: no name of a file of weights or of an index is one.
bool IsAssetName(std::string_view name);

// The assets of a checkpoint, sorted by name; folders are not looked into. Weights, indexes and
// files over 256 MB are no assets.
Result<std::vector<Asset>> ListAssets(const shard::SourceTree& checkpoint);

// Copies all of them from `folder` of a tree ("" for a checkpoint) to assets/ of what is being
// written, and says what they are. One that has another size than when it was listed is kCorrupt.
struct AssetFolder {
  const shard::SourceTree& tree;
  std::string_view folder;  // "", or ends in '/'
};
Result<std::vector<AssetRecord>> CopyAssets(const AssetFolder& from, shard::StagingDirectory& to,
                                            const std::vector<Asset>& assets);

}  // namespace manifest
