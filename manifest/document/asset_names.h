// Decides by its name whether a file beside the weights belongs in a distribution.
#pragma once

#include <string_view>

namespace moepack::manifest {

// The folder of these files in a distribution.
inline constexpr std::string_view kAssetDirectory = "assets/";
inline constexpr const char* kConfigAsset = "assets/config.json";

// True if a file of this name is copied as an asset. Nothing else is written to assets/, accepted
// from a manifest, or copied into a node. Names of weights and indexes are never asset names,
// because a node could otherwise receive other weights through its assets.
bool IsAssetName(std::string_view name);

}  // namespace moepack::manifest
