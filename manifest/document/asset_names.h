// Which files around the weights a distribution holds, by their names.
#pragma once

#include <string_view>

namespace moepack::manifest {

// Where they are in a distribution.
inline constexpr std::string_view kAssetDirectory = "assets/";

// Whether a file of this name is copied as an asset. Nothing else is written to assets/, read back
// from a manifest, or copied into a node: no name of a file of weights or of an index is one.
bool IsAssetName(std::string_view name);

}  // namespace moepack::manifest
