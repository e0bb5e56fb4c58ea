// The indexer of Qwen4-Exp, in plain floats: it scores whole blocks of keys, each by the mean of
// its tokens' keys, and a query sees the keys of the best blocks and those since the last complete
// block. Sources: llama.cpp's src/models/qwen4exp.cpp (build_qsa_top_k) and
// llama-memory-hybrid-idx.cpp for the order of operations.
//
// The host picks the keys for every executor, as it picks experts. Matrix products before it run on
// the executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/shapes.h"

namespace moepack::runtime {

// The norm of pooled keys, and how they are rotated.
struct PooledKey {
  std::span<const float> norm;  // shape.width
  float eps = 0;
  Pairing pairing = Pairing::kHalves;
  std::span<const float> turns;  // of the block's first position: cosines of all pairs, then sines
};
// The key of a block: the mean of its tokens' keys, normed and rotated. `keys` has shape.block rows
// of shape.width values, `key` is one.
void PoolKeys(const BlockShape& shape, const PooledKey& pooled, std::span<const float> keys,
              std::span<float> key);

// Returns the keys that a query sees, ascending, of the `count` it may see: all of them, if
// SeesAllBlocks (block_choice.h). `query` has shape.heads rotated heads, `pooled` the keys of all
// complete blocks among the `count` keys. A block's score is the sum over the heads of
// max(0, query . key). If the last block that is picked does not fit whole, as many of its keys are
// seen as llama.cpp sees.
std::vector<uint32_t> PickPooled(const BlockShape& shape, std::span<const float> query,
                                 std::span<const float> pooled, uint32_t count);

}  // namespace moepack::runtime
