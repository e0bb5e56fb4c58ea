// Applies two encodings one after another. This reproduces a file that was made from another
// quantized file if only the sources of that other file exist.
#pragma once

#include <cstdint>

#include "libshard/base/result.h"
#include "libshard/pack/slice.h"

namespace moepack {

// `first` is a tensor as it was made from its sources, and `second` is the same tensor made from
// the file that holds `first`. Returns `second` made from the sources of `first`: rows are encoded
// as in `first`, decoded, and encoded again. `number` must differ between the tensors of a packing
// run.
Result<OutputTensor> Recoded(const OutputTensor& first, OutputTensor second, uint64_t number);

}  // namespace moepack
