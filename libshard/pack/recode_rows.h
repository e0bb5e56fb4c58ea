// Two encodings one after the other: what a file holds that was made of another file, without that
// file, from the sources of the first.
#pragma once

#include <cstdint>

#include "libshard/base/result.h"
#include "libshard/pack/slice.h"

namespace moepack {

// `first` is a tensor as it was made of its sources, `second` the same tensor made of the file that
// holds `first`. Gives `second` from the sources of `first`: its rows are encoded as `first`,
// decoded, and encoded again. `number` is another one for every tensor of a packing run.
Result<OutputTensor> Recoded(const OutputTensor& first, OutputTensor second, uint64_t number);

}  // namespace moepack
