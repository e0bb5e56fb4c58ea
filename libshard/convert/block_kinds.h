// What mixes the tokens in each block of a GGUF (layer_kind.h), checked against what the runtime's
// graph can hold.
#pragma once

#include <initializer_list>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/base_keys.h"
#include "libshard/model/layer_kind.h"
#include "libshard/model/layer_list.h"

namespace moepack {

// How many entries a list in the config may have.
Result<BlockCounts> CountBlocks(const HfConfig& config, const HfShape& shape);

// Reads the kind of each block. Blocks for multi-token prediction that no list names have full
// attention, as in llama.cpp's converter. kCorrupt if the config names no kinds, as it should under
// `field`, or contradicts itself; kUnsupported, naming it, for a kind that is not one of `known`.
Result<std::vector<LayerKind>> ReadBlockKinds(const HfConfig& config, const HfShape& shape,
                                              ConfigKeys field,
                                              std::initializer_list<LayerKind> known);

// Returns kUnsupported if the config names anything but full attention, for architectures whose
// runtime supports nothing else.
Status CheckFullAttention(const HfConfig& config, const HfShape& shape);

}  // namespace moepack
