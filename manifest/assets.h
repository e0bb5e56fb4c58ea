// The files around the weights that a runtime needs: config, tokenizer, chat template, custom code,
// licence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/file.h"
#include "libshard/result.h"
#include "manifest/manifest.h"

namespace manifest {

// Where they are in a distribution.
inline constexpr std::string_view kAssetDirectory = "assets/";

struct Asset {
  std::string name;  // in the checkpoint's directory, and below assets/ in a distribution
  uint64_t size = 0;
};

// Whether a file of this name is copied as an asset. Nothing else is written to assets/, read back
// from a manifest, or copied into a node: no name of a file of weights or of an index is one.
bool IsAssetName(std::string_view name);

// The assets in `directory`, sorted by name; subdirectories are not looked into. Weights, indexes
// and files over 256 MB are no assets. Refuses links that leave the directory.
Result<std::vector<Asset>> ListAssets(const shard::fs::path& directory);

// Copies one file byte for byte, flushed to disk, and returns its SHA-256.
Result<std::string> CopyAsset(const shard::fs::path& from, const shard::fs::path& to);

// Copies all of them from a directory below `to`/assets, and says what they are.
Result<std::vector<AssetRecord>> CopyAssets(const shard::fs::path& from, const shard::fs::path& to,
                                            const std::vector<Asset>& assets);

}  // namespace manifest
