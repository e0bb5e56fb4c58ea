// The batches of a gradient descent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moepack::runtime {

// Indexes of `size` of the rows, with repetition, drawn with the step alone as the seed, so that a
// descent that is run again draws the same ones; all of them, in order, if there are not more than
// `size`.
std::vector<uint32_t> DrawBatch(size_t rows, size_t size, uint32_t step);

}  // namespace moepack::runtime
