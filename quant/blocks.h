// Treats a row as a sequence of blocks. A Block is a struct whose memory is the block's bytes, and
// its kValues is the number of values it stands for.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace quant {

// Blocks are copied from and to files as they are in memory.
static_assert(std::endian::native == std::endian::little);

using Values = std::span<const float>;

// Calls encode_block(values, importance) -> Block for the blocks in order. The importance is empty,
// or that of one row, which is repeated for each row.
template <class Block, class EncodeBlock>
void EncodeBlocks(Values values, Values importance, std::span<std::byte> out,
                  const EncodeBlock& encode_block) {
  static_assert(std::is_trivially_copyable_v<Block>);
  const size_t count = values.size() / Block::kValues;
  assert(values.size() % Block::kValues == 0 && out.size() == count * sizeof(Block));
  assert(importance.empty() || values.size() % importance.size() == 0);
  for (size_t i = 0; i < count; ++i) {
    const size_t first = i * Block::kValues;
    const Values weights = importance.empty()
                               ? importance
                               : importance.subspan(first % importance.size(), Block::kValues);
    const Block block = encode_block(values.subspan(first, Block::kValues), weights);
    std::memcpy(out.data() + i * sizeof(Block), &block, sizeof(Block));
  }
}

// Calls decode_block(block, out) for the blocks of a row in order.
template <class Block, class DecodeBlock>
void DecodeBlocks(std::span<const std::byte> blocks, std::span<float> out,
                  const DecodeBlock& decode_block) {
  static_assert(std::is_trivially_copyable_v<Block>);
  const size_t count = blocks.size() / sizeof(Block);
  assert(blocks.size() % sizeof(Block) == 0 && out.size() == count * Block::kValues);
  for (size_t i = 0; i < count; ++i) {
    Block block;
    std::memcpy(&block, blocks.data() + i * sizeof(Block), sizeof(Block));
    decode_block(block, out.subspan(i * Block::kValues, Block::kValues));
  }
}

}  // namespace quant
