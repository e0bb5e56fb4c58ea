// What Granite 3 and Granite 4 have in common: packed experts beside a shared MLP, and four
// multipliers.
#pragma once

#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"

namespace moepack {

// ffn_norm, router, experts and shared MLP of every block.
void AddGraniteMoeRows(HfFamily& family);
// Adds the multipliers, the sizes of heads and vocabulary, and the width of the shared MLP.
Status AddGraniteKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys);
// HfFamily::check. The runtime requires the shared experts exactly if the config gives a width for
// them.
Status CheckGraniteShared(const HfConfig& config, const HfShape& shape,
                          const std::vector<GgufTensor>& tensors);
// HfFamily::tokenizer_keys.
Status AddGraniteTokenizerKeys(const TokenizerFiles& files, const Vocabulary& vocabulary,
                               GgufMetadata& metadata);

// What the runtime must know of the multipliers.
void ReadGraniteScales(SpecKeys& keys, ModelSpec& spec);

}  // namespace moepack
