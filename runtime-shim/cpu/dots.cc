#include "runtime-shim/cpu/dots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/cpu/dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "runtime-shim/cpu/dots-inl.h"

#ifndef MOEPACK_DOTS_ALONE_STEP
#define MOEPACK_DOTS_ALONE_STEP
namespace moepack::runtime {
// Some columns of DotsAlone: the first or the last of those whose sums stay in registers. The sums
// are added to y, or written to it.
struct AloneStep {
  FloatRows weights;
  const float* x;
  uint32_t columns;
  float* lanes;
  float* y;
  bool first, last, add;
};
}  // namespace moepack::runtime
#endif

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

using D = FloatTag;
using V = FloatVector;

// Rows and tokens of a block of sums: enough to hide the latency of multiplications, and few enough
// to stay in registers. 4 x 6 sums, 6 tokens and a row are 31 of the 32 registers of AVX-512;
// 4 x 3 sums, 3 tokens and a row are the 16 of AVX2.
constexpr size_t kBlockRows = 4;
#if HWY_TARGET <= HWY_AVX3
constexpr size_t kBlockTokens = 6;
#else
constexpr size_t kBlockTokens = 3;
#endif
constexpr size_t kSingleRows = 8;  // with one token

// Columns [first, end) of a product.
struct Columns {
  size_t first, end;
};

// Rows [row, row + kRows) with tokens [token, token + kTokens).
template <size_t kRows, size_t kTokens>
HWY_INLINE void MultiplyBlock(const Product& product, const Columns& columns, size_t row,
                              size_t token) {
  const D d;
  const size_t stride = product.weights.stride;
  const float* const weights = product.weights.first + row * stride;
  const float* x[kTokens];
  for (size_t t = 0; t < kTokens; ++t) x[t] = product.x[token + t];
  V vectors[kTokens * kRows];
  for (V& vector : vectors) vector = hn::Zero(d);
  size_t c = columns.first;
  for (; c + hn::Lanes(d) <= columns.end; c += hn::Lanes(d)) {
    V tokens[kTokens];
    for (size_t t = 0; t < kTokens; ++t) tokens[t] = hn::LoadU(d, x[t] + c);
    for (size_t r = 0; r < kRows; ++r) {
      const V values = hn::LoadU(d, weights + r * stride + c);
      for (size_t t = 0; t < kTokens; ++t)
        vectors[t * kRows + r] = hn::MulAdd(values, tokens[t], vectors[t * kRows + r]);
    }
  }
  constexpr size_t kMostLanes = 16;
  alignas(64) float sums[(kTokens * kRows + kMostLanes - 1) / kMostLanes * kMostLanes];
  SumLanes<HWY_LANES(float)>(vectors, sums);
  for (; c < columns.end; ++c) {
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t r = 0; r < kRows; ++r) sums[t * kRows + r] += weights[r * stride + c] * x[t][c];
    }
  }
  for (size_t t = 0; t < kTokens; ++t)
    PutSums<kRows>(sums + t * kRows, columns.first > 0, product.y[token + t] + row);
}

// All rows with kTokens tokens.
template <size_t kTokens>
HWY_INLINE void MultiplyTokens(const Product& product, const Columns& columns, size_t token) {
  constexpr size_t kRows = kTokens == 1 ? kSingleRows : kBlockRows;
  size_t row = 0;
  for (; row + kRows <= product.weights.count; row += kRows)
    MultiplyBlock<kRows, kTokens>(product, columns, row, token);
  for (; row + 2 <= product.weights.count; row += 2)
    MultiplyBlock<2, kTokens>(product, columns, row, token);
  for (; row < product.weights.count; ++row)
    MultiplyBlock<1, kTokens>(product, columns, row, token);
}

// Tokens from `token` on, fewer than kBlockTokens.
HWY_INLINE void MultiplyLast(const Product& product, const Columns& columns, size_t token) {
  switch (product.x.size() - token) {
#if HWY_TARGET <= HWY_AVX3
    case 5:
      return MultiplyTokens<5>(product, columns, token);
    case 4:
      return MultiplyTokens<4>(product, columns, token);
    case 3:
      return MultiplyTokens<3>(product, columns, token);
#endif
    case 2:
      return MultiplyTokens<2>(product, columns, token);
    case 1:
      return MultiplyTokens<1>(product, columns, token);
    default:
      return;
  }
}

void MultiplyRowsLanes(const Product& product) {
  Columns columns{0, 0};
  do {
    columns.end = std::min<size_t>(product.columns, columns.first + kColumnsAtOnce);
    size_t token = 0;
    for (; token + kBlockTokens <= product.x.size(); token += kBlockTokens)
      MultiplyTokens<kBlockTokens>(product, columns, token);
    MultiplyLast(product, columns, token);
    columns.first = columns.end;
  } while (columns.first < product.columns);
}

// Continues the sums in `lanes`, starting from zero with the first columns.
template <size_t kRows>
HWY_INLINE void AddAlone(const AloneStep& step, size_t row) {
  const D d;
  const size_t stride = step.weights.stride, width = hn::Lanes(d);
  const float* const weights = step.weights.first + row * stride;
  float* const lanes = step.lanes + row * width;
  V vectors[kRows];
  for (size_t r = 0; r < kRows; ++r)
    vectors[r] = step.first ? hn::Zero(d) : hn::Load(d, lanes + r * width);
  size_t c = 0;
  for (; c + width <= step.columns; c += width) {
    const V token = hn::LoadU(d, step.x + c);
    for (size_t r = 0; r < kRows; ++r)
      vectors[r] = hn::MulAdd(hn::LoadU(d, weights + r * stride + c), token, vectors[r]);
  }
  if (!step.last) {
    for (size_t r = 0; r < kRows; ++r) hn::Store(vectors[r], d, lanes + r * width);
    return;
  }
  alignas(64) float sums[16];
  SumLanes<HWY_LANES(float)>(vectors, sums);
  for (; c < step.columns; ++c) {
    for (size_t r = 0; r < kRows; ++r) sums[r] += weights[r * stride + c] * step.x[c];
  }
  PutSums<kRows>(sums, step.add, step.y + row);
}

void AddAloneLanes(const AloneStep& step) {
  size_t row = 0;
  for (; row + kSingleRows <= step.weights.count; row += kSingleRows)
    AddAlone<kSingleRows>(step, row);
  for (; row + 2 <= step.weights.count; row += 2) AddAlone<2>(step, row);
  for (; row < step.weights.count; ++row) AddAlone<1>(step, row);
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(MultiplyRowsLanes);
HWY_EXPORT(AddAloneLanes);
HWY_EXPORT(TargetName);

void MultiplyRows(const Product& product) { HWY_DYNAMIC_DISPATCH(MultiplyRowsLanes)(product); }

void DotsAlone::Add(const FloatRows& weights, const float* x, uint32_t columns) {
  AloneStep step = {weights, x, columns, lanes_, y_, false, false, false};
  step.weights.count = rows_;
  step.first = done_ % kColumnsAtOnce == 0;
  step.add = done_ >= kColumnsAtOnce;
  done_ += columns;
  step.last = done_ % kColumnsAtOnce == 0 || done_ == columns_;
  HWY_DYNAMIC_DISPATCH(AddAloneLanes)(step);
}

const char* DotInstructions() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace moepack::runtime
#endif
