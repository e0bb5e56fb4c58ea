// The product for few tokens, which takes as long as reading the weights: a warp handles kRows
// rows, and its lanes take their parts in turn.
#pragma once

#include "runtime-shim/cuda/staging.h"

namespace moepack::runtime::cuda {

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
