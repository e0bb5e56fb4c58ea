// The indexer of sparse attention, one token after another, in plain floats. Sources: DeepSeek-V3.2
// (arXiv 2512.02556), section 2.1; llama.cpp's src/models/glm-dsa.cpp for the order of operations.
// llama.cpp also multiplies queries and keys by a Hadamard matrix, which leaves their products as
// they are.
//
// The host computes it for every executor, just as it chooses experts. Matrix products before it
// run on the executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/shapes.h"

namespace moepack::runtime {

// The norm of keys, whose mean is removed first.
struct IndexerConstants {
  std::vector<float> norm, bias;  // shape.width
};

// Rotates the first `shape.dims` values of each head of `heads`; neighbours form pairs. `turns` has
// the cosines of all pairs, then the sines.
void RotateIndex(const IndexerShape& shape, std::span<const float> turns, std::span<float> heads);
// Turns a token's projection into its key: normed and rotated.
void FinishIndexKey(const IndexerShape& shape, const IndexerConstants& constants,
                    std::span<const float> turns, std::span<float> key);

// What a token asks by: rotated queries of all heads, and a weight for each.
struct IndexQuery {
  std::span<const float> heads, weights;
};
// Returns the shape.top_k positions with the highest scores, ascending; of equal ones those that
// llama.cpp picks. `keys` has one key for each position. The score is the sum over the heads of
// weight * max(0, query . key) / sqrt(heads * width).
std::vector<uint32_t> PickPositions(const IndexerShape& shape, const IndexQuery& query,
                                    std::span<const float> keys);

}  // namespace moepack::runtime
