// A named tensor in one of a checkpoint's files. It is plain data that says where the bytes are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/format.h"

namespace moepack {

struct TensorEntry {
  std::string name;
  std::string dtype;                      // as the header spells it: "BF16", "F8_E4M3"
  const quant::Format* format = nullptr;  // null for a type that we do not know and can only copy
  std::vector<uint64_t> shape;            // slowest dimension first; empty for a scalar
  uint32_t file = 0;                      // index into Checkpoint::files()
  uint64_t offset = 0;                    // of the first byte, from the start of the file
  uint64_t bytes = 0;

  // The product of the shape (1 for a scalar). Reading the header has checked that it does not
  // overflow.
  uint64_t Elements() const {
    uint64_t count = 1;
    for (uint64_t dimension : shape) count *= dimension;
    return count;
  }
};

}  // namespace moepack
