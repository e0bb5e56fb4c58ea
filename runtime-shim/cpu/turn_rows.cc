#include "runtime-shim/cpu/turn_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/cpu/turn_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
void TurnRowsLanes(const FloatMatrix& from, float* to, size_t stride) {
  TurnRowsRef(from, to, stride);
}
#else

// Floats of a cache line: tiles of as many rows and columns read and write whole lines.
constexpr size_t kLine = 16;
constexpr size_t kQuad = 4;

// Four rows of four floats.
HWY_INLINE void TurnQuad(const float* from, size_t from_stride, float* to, size_t stride) {
  const hn::FixedTag<float, kQuad> d;
  const hn::FixedTag<double, kQuad / 2> pairs;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_stride),
             c = hn::LoadU(d, from + 2 * from_stride), e = hn::LoadU(d, from + 3 * from_stride);
  // a0 b0 a1 b1 and so on; then pairs of them.
  const auto low_ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             high_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
             low_ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             high_ce = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low_ab, low_ce)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low_ab, low_ce)), d, to + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high_ab, high_ce)), d, to + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high_ab, high_ce)), d, to + 3 * stride);
}

void TurnRowsLanes(const FloatMatrix& from, float* to, size_t stride) {
  const size_t rows = from.rows / kLine * kLine, columns = from.columns / kLine * kLine;
  for (size_t top = 0; top < rows; top += kLine) {
    for (size_t left = 0; left < columns; left += kLine) {
      for (size_t r = top; r < top + kLine; r += kQuad) {
        for (size_t c = left; c < left + kLine; c += kQuad)
          TurnQuad(from.first + r * from.stride + c, from.stride, to + c * stride + r, stride);
      }
    }
  }
  // What is right of the tiles, and what is below them.
  TurnRowsRef({from.first + columns, rows, from.columns - columns, from.stride},
              to + columns * stride, stride);
  TurnRowsRef(from.Rows(rows, from.rows - rows), to + rows, stride);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(TurnRowsLanes);

void TurnRows(const FloatMatrix& from, float* to, size_t stride) {
  HWY_DYNAMIC_DISPATCH(TurnRowsLanes)(from, to, stride);
}

void TurnRowsRef(const FloatMatrix& from, float* to, size_t stride) {
  for (size_t r = 0; r < from.rows; ++r) {
    for (size_t c = 0; c < from.columns; ++c) to[c * stride + r] = from.first[r * from.stride + c];
  }
}

}  // namespace moepack::runtime
#endif
