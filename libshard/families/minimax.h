// Code shared by MiniMax-M2 and MiniMax-M3.
#pragma once

#include "libshard/convert/base_keys.h"

namespace moepack {

// Adds rope.dimension_count: rotary_dim, otherwise a part of the head, otherwise all of it, as in
// the config class.
Status AddMinimaxRotation(const HfConfig& config, const HfShape& shape, ArchKeys& keys);

}  // namespace moepack
