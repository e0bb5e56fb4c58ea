// A named tensor somewhere in a checkpoint's files. Plain data; says where the bytes are, holds
// none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/format.h"

namespace moepack {

struct TensorEntry {
  std::string name;
  std::string dtype;                      // as the header spells it: "BF16", "F8_E4M3"
  const quant::Format* format = nullptr;  // null: a type we do not know, which can only be copied
  std::vector<uint64_t> shape;            // slowest dimension first; empty for a scalar
  uint32_t file = 0;                      // index into Checkpoint::files()
  uint64_t offset = 0;                    // of the first byte, from the start of the file
  uint64_t bytes = 0;

  // Product of the shape (1 for a scalar). Validated not to overflow when the header was read.
  uint64_t Elements() const {
    uint64_t count = 1;
    for (uint64_t dimension : shape) count *= dimension;
    return count;
  }
};

}  // namespace moepack
