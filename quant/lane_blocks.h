// Assigns the blocks of a run to the lanes of a kernel's vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "quant/blocks.h"
#include "quant/format.h"

namespace quant {

// The most lanes of any instruction set. Buffers have room for this many.
inline constexpr size_t kMaxLanes = 16;

// Up to kMaxLanes consecutive blocks. Lanes without a block repeat the last one.
struct LaneBlocks {
  size_t first = 0, count = 0;  // numbers of blocks in the run
  Values values, importance;    // values of the whole run; importance of one row, or empty
  const float* value[kMaxLanes];
  const float* weight[kMaxLanes];  // only with importance

  bool weighted() const { return !importance.empty(); }
};

template <size_t kValues>
LaneBlocks TakeLanes(Values values, Values importance, size_t first, size_t lanes) {
  LaneBlocks blocks;
  blocks.first = first;
  blocks.count = std::min(lanes, values.size() / kValues - first);
  blocks.values = values;
  blocks.importance = importance;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const size_t at = (first + std::min(lane, blocks.count - 1)) * kValues;
    blocks.value[lane] = values.data() + at;
    blocks.weight[lane] = importance.empty() ? nullptr : importance.data() + at % importance.size();
  }
  return blocks;
}

// Encodes one block with the scalar reference, for a lane whose numbers the kernel cannot handle.
template <class Block>
void EncodeByReference(const LaneBlocks& blocks, size_t lane, Encoder reference, Block& out) {
  const Values weights = blocks.weighted() ? Values(blocks.weight[lane], Block::kValues) : Values();
  reference({blocks.value[lane], Block::kValues}, weights,
            std::as_writable_bytes(std::span(&out, 1)));
}

// Calls encode_block(x, block) -> bool for the blocks of a run in order. Where it returns false,
// because the kernel cannot handle the numbers, the scalar reference encodes the block.
template <class Block, class EncodeBlock>
void EncodeBlocksOr(Encoder reference, Values values, std::span<std::byte> out,
                    const EncodeBlock& encode_block) {
  EncodeBlocks<Block>(values, {}, out, [&](Values x, Values) {
    Block block;
    if (!encode_block(x.data(), block)) {
      reference(x, {}, std::as_writable_bytes(std::span(&block, 1)));
    }
    return block;
  });
}

// One call of an encoder.
struct EncodeRun {
  Values values, importance;
  std::span<std::byte> out;
};

// Calls encode_lanes(blocks, out) for `lanes` blocks at a time; `out` has one Block for each lane
// that does not repeat another.
template <class Block, class EncodeLanes>
void EncodeInLanes(const EncodeRun& run, size_t lanes, const EncodeLanes& encode_lanes) {
  const auto& [values, importance, out] = run;
  const size_t count = values.size() / Block::kValues;
  assert(values.size() % Block::kValues == 0 && out.size() == count * sizeof(Block));
  assert(importance.empty() || values.size() % importance.size() == 0);
  Block room[kMaxLanes];
  for (size_t first = 0; first < count; first += lanes) {
    const LaneBlocks blocks = TakeLanes<Block::kValues>(values, importance, first, lanes);
    encode_lanes(blocks, std::span(room).first(blocks.count));
    std::memcpy(out.data() + first * sizeof(Block), room, blocks.count * sizeof(Block));
  }
}

}  // namespace quant
