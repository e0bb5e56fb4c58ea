// Names of tensors in a GGUF file that belong to a block (layer): "blk.7.attn_q.weight".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moepack {

struct BlockName {
  uint64_t block = 0;     // 2^64 - 1 for any number that is too large
  std::string_view rest;  // "attn_q.weight"; a part of the name that was given
};

// No value for a name that is not "blk.", decimal digits, a dot, and anything.
std::optional<BlockName> ParseBlockName(std::string_view name);

}  // namespace moepack
