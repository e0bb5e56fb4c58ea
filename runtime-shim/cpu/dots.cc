#include "runtime-shim/cpu/dots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/cpu/dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "runtime-shim/reference/host_executor.h"

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Computes kRows x kTokens sums side by side: enough to hide the latency of multiplications, and
// few enough to stay in registers (4 x 3 sums, 3 tokens and a row are the 16 registers of AVX2).
template <size_t kRows, size_t kTokens>
HWY_INLINE void MultiplyBlock(const float* const (&w)[kRows], const float* const (&x)[kTokens],
                              size_t columns, float (&sums)[kRows][kTokens]) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V vectors[kRows][kTokens];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) vectors[r][t] = hn::Zero(d);
  }
  size_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    V tokens[kTokens];
    for (size_t t = 0; t < kTokens; ++t) tokens[t] = hn::LoadU(d, x[t] + c);
    for (size_t r = 0; r < kRows; ++r) {
      const V row = hn::LoadU(d, w[r] + c);
      for (size_t t = 0; t < kTokens; ++t)
        vectors[r][t] = hn::MulAdd(row, tokens[t], vectors[r][t]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTokens; ++t) {
      float sum = hn::GetLane(hn::SumOfLanes(d, vectors[r][t]));
      for (size_t i = c; i < columns; ++i) sum += w[r][i] * x[t][i];
      sums[r][t] = sum;
    }
  }
}

// Multiplies rows [row, row + kRows) of the tile with tokens [token, token + kTokens).
template <size_t kRows, size_t kTokens>
HWY_INLINE void MultiplyAt(const DecodedTile& tile, const Rows& x, const Rows& y, uint32_t row,
                           uint32_t token) {
  const float* weights[kRows];
  const float* tokens[kTokens];
  for (uint32_t r = 0; r < kRows; ++r) weights[r] = tile.weights.data() + size_t{row + r} * x.width;
  for (uint32_t t = 0; t < kTokens; ++t) tokens[t] = RowOf(x, token + t).data();
  float sums[kRows][kTokens];
  MultiplyBlock<kRows, kTokens>(weights, tokens, x.width, sums);
  for (uint32_t t = 0; t < kTokens; ++t) {
    const auto out = RowOf(y, token + t);
    for (uint32_t r = 0; r < kRows; ++r) out[row + r] = sums[r][t];
  }
}

// Multiplies all rows of the tile with kTokens tokens.
template <size_t kTokens>
HWY_INLINE void MultiplyTokens(const DecodedTile& tile, const Rows& x, const Rows& y,
                               uint32_t token) {
  uint32_t row = 0;
  for (; row + kDotRows <= tile.rows; row += kDotRows)
    MultiplyAt<kDotRows, kTokens>(tile, x, y, row, token);
  for (; row < tile.rows; ++row) MultiplyAt<1, kTokens>(tile, x, y, row, token);
}

void MultiplyTileVectors(const DecodedTile& tile, const Rows& x, const Rows& y) {
  uint32_t token = 0;
  for (; token + 3 <= x.count; token += 3) MultiplyTokens<3>(tile, x, y, token);
  for (; token < x.count; ++token) MultiplyTokens<1>(tile, x, y, token);
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(MultiplyTileVectors);
HWY_EXPORT(TargetName);

void MultiplyTile(const DecodedTile& tile, const Rows& x, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(MultiplyTileVectors)(tile, x, y);
}

const char* DotInstructions() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace moepack::runtime
#endif
