// The product for few tokens, which takes as long as reading the weights: a warp handles kRows
// rows, and its lanes take their parts in turn.
#pragma once

#include "runtime-shim/cuda/blocks.h"
#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/products.h"

namespace moepack::runtime::cuda {

// Columns of x in shared memory, in the order in which the lanes of a warp use them: 32 lanes read
// 512 adjacent bytes, whatever the layout of a type's blocks.

// In one step the 32 lanes of a warp take one part each;
// `kSteps` steps are staged at a time.
template <class Type, int kTokens>
struct Staging {
  static constexpr int kPartValues = Type::kGroups * Type::kGroupValues;
  static constexpr int kPiece = Type::kGroupValues >= 4 ? 4 : 1;  // neighbours moved at once
  static constexpr int kGroupPieces = Type::kGroupValues / kPiece;
  static constexpr int kPieces = kPartValues / kPiece;
  static constexpr int kFloatsOfStep = kLanes * kPartValues * kTokens;
  static constexpr int kMost = 8192;  // floats: 32 KB
  static constexpr int kSteps = kMost > kFloatsOfStep ? kMost / kFloatsOfStep : 1;
  static constexpr int kFloats = kSteps * kFloatsOfStep;

  MOEPACK_DEVICE static int At(int step, int token, int piece, int lane) {
    return (((step * kTokens + token) * kPieces + piece) * kLanes + lane) * kPiece;
  }
  // The column of the first value of a piece of part `part` of a row.
  MOEPACK_DEVICE static uint32_t Column(uint32_t part, int piece) {
    const auto of_block = static_cast<int>(part % Type::kParts);
    const int in_block =
        Type::First(of_block, piece / kGroupPieces) + piece % kGroupPieces * kPiece;
    return part / Type::kParts * Type::kValues + static_cast<uint32_t>(in_block);
  }
};

template <class Type, int kTokens>
__device__ void Stage(const Product& product, uint32_t first_part, uint32_t parts, float* staged) {
  using S = Staging<Type, kTokens>;
  const Floats& x = product.x;
  const bool wide = x.stride % 4 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
  for (int i = static_cast<int>(threadIdx.x); i < S::kFloats / S::kPiece; i += kThreads) {
    const int lane = i % kLanes, piece = i / kLanes % S::kPieces;
    const int token = i / (kLanes * S::kPieces) % kTokens;
    const int step = i / (kLanes * S::kPieces * kTokens);
    const uint32_t part = first_part + static_cast<uint32_t>(step * kLanes + lane);
    if (part >= parts) continue;
    const uint32_t row = blockIdx.y * kTokens + static_cast<uint32_t>(token);
    const float* const from =
        x.data + (row < x.count ? row : 0) * x.stride + S::Column(part, piece);
    float* const to = staged + S::At(step, token, piece, lane);
    if constexpr (S::kPiece == 1) {
      *to = *from;
    } else if (wide) {
      *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    } else {
      *reinterpret_cast<float4*>(to) = float4{from[0], from[1], from[2], from[3]};
    }
  }
}

// The columns of this lane's part that belong to group `g`. `step` is where its step was staged.
template <class Type, int kTokens>
__device__ __forceinline__ void ReadStaged(const float* step, int g,
                                           float (&x)[kTokens][Type::kGroupValues]) {
  using S = Staging<Type, kTokens>;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  MOEPACK_UNROLL
  for (int i = 0; i < kTokens * S::kGroupPieces; ++i) {
    const int token = i / S::kGroupPieces, piece = i % S::kGroupPieces;
    const float* const from = step + S::At(0, token, g * S::kGroupPieces + piece, lane);
    if constexpr (S::kPiece == 1) {
      x[token][piece] = *from;
    } else {
      const float4 four = *reinterpret_cast<const float4*>(from);
      x[token][4 * piece] = four.x, x[token][4 * piece + 1] = four.y;
      x[token][4 * piece + 2] = four.z, x[token][4 * piece + 3] = four.w;
    }
  }
}

// sums[r][t] += part `index` of row r times x[t].
template <class Type, int kRows, int kTokens>
__device__ __forceinline__ void AddPart(const typename Type::Part (&parts)[kRows], int index,
                                        const float* staged_step, float (&sums)[kRows][kTokens]) {
  MOEPACK_UNROLL
  for (int g = 0; g < Type::kGroups; ++g) {
    float x[kTokens][Type::kGroupValues];
    ReadStaged<Type, kTokens>(staged_step, g, x);
    // sum of ((q - base) * scale + offset) * x, with the constants factored out.
    float total[kTokens] = {};
    if constexpr (Type::kOffset || Type::kBase != 0) {
      MOEPACK_UNROLL
      for (int i = 0; i < kTokens * Type::kGroupValues; ++i) {
        total[i / Type::kGroupValues] += x[i / Type::kGroupValues][i % Type::kGroupValues];
      }
    }
    MOEPACK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto group = Type::Decode(parts[r], index, g);
      MOEPACK_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        float dot = -Type::kBase * total[t];
        MOEPACK_UNROLL
        for (int i = 0; i < Type::kGroupValues; ++i) dot += group.q[i] * x[t][i];
        sums[r][t] += Type::kScaled ? group.scale * dot : dot;
        if constexpr (Type::kOffset) sums[r][t] += group.offset * total[t];
      }
    }
  }
}

template <class Type, int kRows, int kTokens>
__global__ void __launch_bounds__(kThreads, kRows* kTokens == 1 ? 4 : 2)
    MultiplyVectors(Product product) {
  using S = Staging<Type, kTokens>;
  alignas(16) __shared__ float staged[S::kFloats];
  const Blocks& weights = product.weights;
  const uint32_t parts = weights.columns / Type::kValues * Type::kParts;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t first_row = (blockIdx.x * kWarps + threadIdx.x / kLanes) * kRows;

  // Rows past the end repeat the last one; their sums are not stored.
  const uint8_t* rows[kRows];
  MOEPACK_UNROLL
  for (uint32_t r = 0; r < kRows; ++r) {
    const uint32_t row = first_row + r < weights.rows ? first_row + r : weights.rows - 1;
    rows[r] = weights.data + row * weights.row_bytes;
  }
  typename Type::Part next[kRows]{};
  const auto load = [&](uint32_t part) {
    const uint64_t at = uint64_t{part / Type::kParts} * Type::kBytes;
    MOEPACK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      next[r] = Type::Load(rows[r] + at, static_cast<int>(part % Type::kParts));
    }
  };
  if (lane < parts) load(lane);

  float sums[kRows][kTokens] = {};
  constexpr uint32_t kStaged = S::kSteps * kLanes;  // parts
  for (uint32_t first = 0; first < parts; first += kStaged) {
    __syncthreads();
    Stage<Type, kTokens>(product, first, parts, staged);
    __syncthreads();
    for (uint32_t part = first + lane; part < parts && part < first + kStaged; part += kLanes) {
      // The next loads are in flight while these parts are processed.
      typename Type::Part current[kRows];
      MOEPACK_UNROLL
      for (int r = 0; r < kRows; ++r) current[r] = next[r];
      if (part + kLanes < parts) load(part + kLanes);
      const auto step = static_cast<int>((part - first) / kLanes);
      AddPart<Type, kRows, kTokens>(current, static_cast<int>(part % Type::kParts),
                                    staged + S::At(step, 0, 0, 0), sums);
    }
  }
  MOEPACK_UNROLL
  for (int i = 0; i < kRows * kTokens; ++i) {
    const float sum = WarpSum(sums[i / kTokens][i % kTokens]);
    const uint32_t row = first_row + static_cast<uint32_t>(i / kTokens);
    const uint32_t token = blockIdx.y * kTokens + static_cast<uint32_t>(i % kTokens);
    if (lane == 0 && row < weights.rows && token < product.y.count) {
      product.y.data[token * product.y.stride + row] = sum;
    }
  }
}

}  // namespace moepack::runtime::cuda
