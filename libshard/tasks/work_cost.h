// The cost of producing an output's bytes, so that tasks get equal shares of the work.
#pragma once

#include <cstdint>

#include "libshard/format/output_file.h"

namespace moepack {

// The cost of encoding `values` values of the tensor, as the number of bytes that could be read,
// hashed and written meanwhile. 0 for a tensor that is copied.
uint64_t EncodeCost(const OutputTensor& tensor, uint64_t values);

}  // namespace moepack
