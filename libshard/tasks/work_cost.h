// What it costs to make bytes of an output, so that tasks get equal shares of the work.
#pragma once

#include <cstdint>

#include "libshard/format/output_file.h"

namespace moepack {

// What encoding `values` values of the tensor takes, as the bytes that could be read, hashed and
// written meanwhile. 0 for a tensor that is copied.
uint64_t EncodeCost(const OutputTensor& tensor, uint64_t values);

}  // namespace moepack
