// Columns of x in shared memory, in the order in which the lanes of a warp use them: 32 lanes read
// 512 adjacent bytes, whatever the layout of a type's blocks.
#pragma once

#include "runtime-shim/cuda/blocks.h"
#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/products.h"

namespace moepack::runtime::cuda {

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

}  // namespace moepack::runtime::cuda
