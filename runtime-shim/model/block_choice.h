// Attention to some blocks of keys, in plain floats (MiniMax-M3). An indexer scores the keys for
// each key head; a block's score is that of its best key, and a query sees the best blocks and the
// last ones. Source: llama.cpp's src/models/minimax-m3.cpp, v0.5.0.
//
// The host picks the blocks for every executor, as it picks experts, and computes the attention of
// the queries that do not see all of their blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/shapes.h"

namespace moepack::runtime {

// Whether a query that may see `keys` keys sees all of them, whatever their scores.
inline bool SeesAllBlocks(const BlockShape& shape, uint64_t keys) {
  const uint64_t incomplete = shape.pooled ? shape.block - 1 : 0;  // keys since the last block
  return keys <= uint64_t{shape.block} * shape.picked + incomplete;
}

// Returns the blocks that a query sees, ascending. `query` is a head of the indexer, shape.width
// values; `keys` has one row of as many for each key that the query may see, at least one. Of
// blocks with the same score, the first is taken.
std::vector<uint32_t> PickBlocks(const BlockShape& shape, std::span<const float> query,
                                 std::span<const float> keys);

// One key head's keys and values, and the queries that share it. Row r of the keys begins at
// keys[r * key_stride].
struct PickedAttention {
  std::span<const float> queries;  // heads x key_width
  std::span<const float> keys, values;
  uint32_t key_stride = 0, value_stride = 0;
  uint32_t key_width = 0, value_width = 0;
  uint32_t count = 0;  // keys that the queries may see
  float scale = 0;
};
// out = softmax(scale * q k^T) v over the keys that are `seen`, at least one: heads x value_width.
void AttendToKeys(const PickedAttention& inputs, std::span<const uint32_t> seen,
                  std::span<float> out);
// The keys of the blocks, ascending, among `count` keys.
std::vector<uint32_t> KeysOfBlocks(const BlockShape& shape, std::span<const uint32_t> blocks,
                                   uint32_t count);
// The same over the keys of the blocks.
void AttendToBlocks(const PickedAttention& inputs, const BlockShape& shape,
                    std::span<const uint32_t> blocks, std::span<float> out);

}  // namespace moepack::runtime
