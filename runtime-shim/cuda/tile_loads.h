// The tiles of weights and of x that a block of threads multiplies, and how they get there: first
// into registers, while the tiles before them are still in use, then into shared memory.
#pragma once

#include "runtime-shim/cuda/blocks.h"
#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/products.h"

namespace moepack::runtime::cuda {

inline constexpr int kDepth = 128;  // columns of weights decoded at a time
inline constexpr int kSlice = 32;   // columns of x loaded at a time
inline constexpr int kTilePitch = kTile + 4;

// Columns are rows of the tiles, so that four rows, or tokens, of a column are read at once.
struct alignas(16) Tiles {
  float weights[kDepth][kTilePitch];
  float x[kSlice][kTilePitch];
};
static_assert(sizeof(Tiles) <= 48 * 1024);

// The number of item i of this thread; a warp has consecutive items.
__device__ __forceinline__ int Item(int i) { return i * kThreads + static_cast<int>(threadIdx.x); }

// What a thread loads of the next columns of weights: some parts of some rows.
template <class Type>
struct NextWeights {
  static constexpr int kPartValues = Type::kGroups * Type::kGroupValues;
  static constexpr int kItems = kTile * (kDepth / kPartValues);
  static constexpr int kCount = (kItems + kThreads - 1) / kThreads;
  typename Type::Part parts[kCount] = {};

  __device__ static uint32_t Row(int i) {
    return blockIdx.x * kTile + static_cast<uint32_t>(Item(i) % kTile);
  }
  __device__ static uint32_t PartOf(int i, uint32_t first_column) {
    return first_column / kPartValues + static_cast<uint32_t>(Item(i) / kTile);
  }
  __device__ static bool IsThere(const Blocks& weights, uint32_t row, uint32_t part) {
    return row < weights.rows && part < weights.columns / Type::kValues * Type::kParts;
  }

  __device__ void Load(const Blocks& weights, uint32_t first_column) {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const uint32_t row = Row(i), part = PartOf(i, first_column);
      if (Item(i) >= kItems || !IsThere(weights, row, part)) continue;
      const uint64_t block = part / Type::kParts;
      parts[i] = Type::Load(weights.data + row * weights.row_bytes + block * Type::kBytes,
                            static_cast<int>(part % Type::kParts));
    }
  }

  // Zeros where there are no rows or columns.
  __device__ void Decode(const Blocks& weights, uint32_t first_column, Tiles& tiles) const {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (Item(i) >= kItems) continue;
      const uint32_t row = Row(i), part = PartOf(i, first_column);
      const bool there = IsThere(weights, row, part);
      const auto of_block = static_cast<int>(part % Type::kParts);
      const int start =
          static_cast<int>(part / Type::kParts * Type::kValues) - static_cast<int>(first_column);
      MOEPACK_UNROLL
      for (int g = 0; g < Type::kGroups; ++g) {
        const auto group = Type::Decode(parts[i], of_block, g);
        const int first = start + Type::First(of_block, g);
        MOEPACK_UNROLL
        for (int j = 0; j < Type::kGroupValues; ++j) {
          tiles.weights[first + j][Item(i) % kTile] = there ? group.template Value<Type>(j) : 0.0f;
        }
      }
    }
  }
};

// What a thread loads of the next columns of x. A warp takes 8 columns of 4 tokens at a time, which
// lie in different banks of the tile.
struct NextX {
  static constexpr int kCount = kTile * kSlice / kThreads;
  float values[kCount];

  __device__ static int Column(int item) { return item % 8 + item / 32 % (kSlice / 8) * 8; }
  __device__ static int Token(int item) { return item / 8 % 4 + item / (kSlice * 4) * 4; }

  // Zeros where there are no tokens or columns.
  __device__ void Load(const Floats& x, uint32_t first_column) {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const uint32_t token = blockIdx.y * kTile + static_cast<uint32_t>(Token(Item(i)));
      const uint32_t column = first_column + static_cast<uint32_t>(Column(Item(i)));
      const bool there = token < x.count && column < x.width;
      values[i] = there ? x.data[token * x.stride + column] : 0.0f;
    }
  }
  __device__ void Store(Tiles& tiles) const {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) tiles.x[Column(Item(i))][Token(Item(i))] = values[i];
  }
};

}  // namespace moepack::runtime::cuda
