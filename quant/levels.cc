#include "quant/levels.h"

#include <cstring>

#include "quant/blocks.h"
#include "quant/k_quants/q2_k.h"
#include "quant/k_quants/q3_k.h"
#include "quant/k_quants/q4_k.h"
#include "quant/k_quants/q5_k.h"
#include "quant/k_quants/q6_k.h"
#include "quant/legacy/q4_0.h"
#include "quant/legacy/q4_1.h"
#include "quant/legacy/q5_0.h"
#include "quant/legacy/q5_1.h"
#include "quant/legacy/q8_0.h"
#include "quant/tables/fp4.h"
#include "quant/tables/iq4.h"
#include "quant/tables/iq4_nl.h"
#include "quant/tables/iq4_xs.h"
#include "quant/tables/mxfp4.h"
#include "quant/tables/nvfp4.h"

namespace quant {
namespace {

// Calls `pack` with the levels and the block in memory of its own, as bytes need no alignment.
template <class Block, class Pack>
void Put(std::span<const uint8_t> levels, std::span<std::byte> bytes, const Pack& pack) {
  Block block;
  std::memcpy(&block, bytes.data(), sizeof(Block));
  pack(levels.first<Block::kValues>(), block);
  std::memcpy(bytes.data(), &block, sizeof(Block));
}

Levels ArrayOf(std::span<const uint8_t, kSuperBlock> levels) {
  Levels q;
  std::memcpy(q.data(), levels.data(), q.size());
  return q;
}

using LevelsIn = std::span<const uint8_t>;
using BytesOut = std::span<std::byte>;

// Of blocks of 32 in nibbles, without and with fifth bits.
template <class Block>
void PutNibbles(LevelsIn levels, BytesOut bytes) {
  Put<Block>(levels, bytes, [](auto q, Block& block) { PackNibbles(q, block.qs); });
}

template <class Block>
void PutFiveBits(LevelsIn levels, BytesOut bytes) {
  Put<Block>(levels, bytes, [](auto q, Block& block) {
    PackNibbles(q, block.qs);
    PackFifthBits(q, block.qh);
  });
}

// -128 has no use for a level that 127 below zero does not reach.
constexpr int kQ80Top = 127;

void PutQ80(LevelsIn levels, BytesOut bytes) {
  Put<BlockQ80>(levels, bytes, [](auto q, BlockQ80& block) {
    for (size_t i = 0; i < q.size(); ++i) block.qs[i] = static_cast<int8_t>(q[i] - kQ80Top);
  });
}

void PutQ2K(LevelsIn levels, BytesOut bytes) {
  Put<BlockQ2K>(levels, bytes, [](auto q, BlockQ2K& b) { PackTwoBits(ArrayOf(q), 0, b.qs); });
}

void PutQ3K(LevelsIn levels, BytesOut bytes) {
  Put<BlockQ3K>(levels, bytes, [](auto q, BlockQ3K& block) { PackQ3K(ArrayOf(q), block); });
}

void PutQ4K(LevelsIn levels, BytesOut bytes) {
  Put<BlockQ4K>(levels, bytes,
                [](auto q, BlockQ4K& block) { block = MakeBlockQ4K(block.pairs, ArrayOf(q)); });
}

void PutQ5K(LevelsIn levels, BytesOut bytes) {
  Put<BlockQ5K>(levels, bytes,
                [](auto q, BlockQ5K& block) { block = MakeBlockQ5K(block.pairs, ArrayOf(q)); });
}

void PutQ6K(LevelsIn levels, BytesOut bytes) {
  Put<BlockQ6K>(levels, bytes, [](auto q, BlockQ6K& block) { PackQ6K(ArrayOf(q), block); });
}

void PutIq4Xs(LevelsIn levels, BytesOut bytes) {
  Put<BlockIq4Xs>(levels, bytes, [](auto q, BlockIq4Xs& block) {
    PackFourBits(ArrayOf(q), kIq4XsDistance, block.qs);
  });
}

void PutNvfp4(LevelsIn levels, BytesOut bytes) {
  constexpr size_t kHalf = BlockNvfp4::kGroupValues / 2;
  Put<BlockNvfp4>(levels, bytes, [](auto q, BlockNvfp4& block) {
    for (size_t g = 0; g < BlockNvfp4::kGroups; ++g) {
      const auto group = q.subspan(g * BlockNvfp4::kGroupValues, BlockNvfp4::kGroupValues);
      for (size_t j = 0; j < kHalf; ++j)
        block.qs[g * kHalf + j] = static_cast<uint8_t>((group[j] & 15) | group[j + kHalf] << 4);
    }
  });
}

struct GridOfType {
  std::string_view type;
  LevelGrid grid;
};

constexpr GridOfType kGrids[] = {
    {"q2_K", {4, {}, PutQ2K}},
    {"q3_K", {8, {}, PutQ3K}},
    {"q4_K", {16, {}, PutQ4K}},
    {"q5_K", {32, {}, PutQ5K}},
    {"q6_K", {64, {}, PutQ6K}},
    {"q4_0", {16, {}, PutNibbles<BlockQ40>}},
    {"q4_1", {16, {}, PutNibbles<BlockQ41>}},
    {"q5_0", {32, {}, PutFiveBits<BlockQ50>}},
    {"q5_1", {32, {}, PutFiveBits<BlockQ51>}},
    {"q8_0", {2 * kQ80Top + 1, {}, PutQ80}},
    {"iq4_nl", {16, kIq4Codes, PutNibbles<BlockIq4Nl>}},
    {"iq4_xs", {16, kIq4Codes, PutIq4Xs}},
    {"mxfp4", {16, kFp4Codes, PutNibbles<BlockMxfp4>}},
    {"nvfp4", {16, kFp4Codes, PutNvfp4}},
};

}  // namespace

const LevelGrid* FindGrid(const Format& format) {
  for (const GridOfType& row : kGrids) {
    if (row.type == format.name) return &row.grid;
  }
  return nullptr;
}

}  // namespace quant
