// Makes the keys that every architecture takes from config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/arch_keys.h"
#include "libshard/convert/routing_keys.h"
#include "libshard/model/hf_config.h"

namespace moepack {

inline constexpr const char* kNoGgufHint =
    "GGUF cannot hold this model; safetensors output (--format safetensors) still works";

// kUnsupported: `what` the config says cannot be written as a GGUF.
Error CannotHold(const HfConfig& config, const std::string& what);

// The numbers of a model that more than one step of a conversion needs.
struct HfShape {
  uint32_t layers = 0;  // decoder layers
  uint32_t hidden = 0, heads = 0, kv_heads = 0;
  uint32_t head_size = 0;  // head_dim, or hidden / heads
  uint32_t vocabulary = 0;
  uint32_t mtp_layers = 0;  // blocks for multi-token prediction that the GGUF keeps
};
Result<HfShape> ReadShape(const HfConfig& config);

// Adds <arch>.block_count, context_length, embedding_length, ... expert_gating_func. `blocks`
// includes the blocks for multi-token prediction that are kept.
Status AddBaseKeys(const HfConfig& config, const RoutingToWrite& routing, uint32_t blocks,
                   ArchKeys& keys);

// kUnsupported unless the field is one of `words`, the names of the only one that the runtime has,
// or absent.
Status CheckWord(const HfConfig& config, ConfigKeys keys,
                 const std::vector<std::string_view>& words);

// Checks what llama.cpp asserts about experts and routing groups when it loads a file with the keys
// in `metadata`. kUnsupported, because a failed assertion aborts the process.
Status CheckExpertCounts(const HfConfig& config, std::string_view architecture,
                         const GgufMetadata& metadata);

// Returns kUnsupported for heads whose size is not hidden size / heads, for architectures whose
// runtime supports no other size.
Status CheckSquareHeads(const HfConfig& config, const HfShape& shape);

// How many leading values of a head are rotated: partial_rotary_factor of `head_size`, or all of
// them without it.
Result<uint32_t> RotatedPart(const HfConfig& config, uint32_t head_size);

}  // namespace moepack
