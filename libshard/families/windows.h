// What the families have in common in which some layers attend only to the last tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/convert/hf_family.h"

namespace moepack {

// Which blocks have a window; kUnsupported for any kind of layer but that and full attention.
Result<std::vector<bool>> ReadWindowed(const HfConfig& config, const HfShape& shape,
                                       ConfigKeys field);

// One number per block: `window` in those with a window, and `full` in the others.
std::vector<int32_t> ByWindow(const std::vector<bool>& windowed, uint32_t window, uint32_t full);

// Adds attention.sliding_window.
Status AddWindowKey(const HfConfig& config, ArchKeys& keys);

// kCorrupt, naming the field, unless so many heads can share so many key heads.
Status CheckKeyHeads(const HfConfig& config, ConfigKeys field, uint32_t heads, uint32_t key_heads);

}  // namespace moepack
