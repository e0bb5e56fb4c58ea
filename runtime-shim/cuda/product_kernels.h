// A type's row in the table of products.h.
#pragma once

#include "runtime-shim/cuda/multiply_tiles.h"
#include "runtime-shim/cuda/multiply_vectors.h"

namespace moepack::runtime::cuda {

// One thread decodes one part of one row.
template <class Type>
__global__ void __launch_bounds__(kThreads) EmbedRows(Blocks weights, RowList list, Floats y) {
  const uint32_t part = blockIdx.y * kThreads + threadIdx.x;
  if (part >= weights.columns / Type::kValues * Type::kParts) return;
  const uint32_t block = part / Type::kParts;
  const auto of_block = static_cast<int>(part % Type::kParts);
  const uint8_t* const row = weights.data + list.rows[blockIdx.x] * weights.row_bytes;
  const auto loaded = Type::Load(row + uint64_t{block} * Type::kBytes, of_block);
  float* const out = y.data + blockIdx.x * y.stride + uint64_t{block} * Type::kValues;
  for (int g = 0; g < Type::kGroups; ++g) {
    const auto group = Type::Decode(loaded, of_block, g);
    const int first = Type::First(of_block, g);
    for (int i = 0; i < Type::kGroupValues; ++i) out[first + i] = group.template Value<Type>(i);
  }
}

template <class Type>
void Embed(const Blocks& weights, const RowList& list, const Floats& y, cudaStream_t stream) {
  const uint32_t parts = weights.columns / Type::kValues * Type::kParts;
  Launch(EmbedRows<Type>, {list.count, Blocks1d(parts, kThreads)}, stream, weights, list, y);
}

// With more rows per warp, x is read less often, but the device must still be filled.
template <class Type>
void Multiply(const Product& product, cudaStream_t stream) {
  constexpr uint32_t kFewTokens = 8, kRows = 4, kTokens = 4;
  const uint32_t rows = product.weights.rows, tokens = product.x.count;
  if (tokens > kFewTokens) {
    MultiplyInTiles<Type>(product, stream);
  } else if (tokens > 1) {
    Launch(MultiplyVectors<Type, 1, kTokens>, {Blocks1d(rows, kWarps), Blocks1d(tokens, kTokens)},
           stream, product);
  } else if (rows < kRows * kWarps * static_cast<uint32_t>(product.multiprocessors)) {
    Launch(MultiplyVectors<Type, 1, 1>, {Blocks1d(rows, kWarps)}, stream, product);
  } else {
    Launch(MultiplyVectors<Type, kRows, 1>, {Blocks1d(rows, kRows * kWarps)}, stream, product);
  }
}

template <class Type>
constexpr ProductKernels KernelsOf(std::string_view format) {
  return {format, Type::kAlign, Multiply<Type>, Embed<Type>};
}

}  // namespace moepack::runtime::cuda
