#include "runtime-shim/cpu/panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/cpu/panels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
constexpr size_t kLanes = 1;
#elif HWY_TARGET <= HWY_AVX3
constexpr size_t kLanes = 16;
#elif HWY_TARGET <= HWY_AVX2
constexpr size_t kLanes = 8;
#else
constexpr size_t kLanes = 4;
#endif
constexpr size_t kVectors = kPanelColumns / kLanes;
// Rows of sums that are in registers at once. 3 x 4 sums, 3 factors and a vector of the panel are
// the 16 registers of AVX2; 8 x 2 sums of AVX-512 hide the latency of its multiplications.
constexpr size_t kRows = kLanes == 16 ? 8 : kLanes == 8 ? 3 : 1;

template <size_t kCount>
HWY_INLINE void AddRows(const PanelFactors& factors, size_t row, const ConstPanel& panel,
                        const Panel& out) {
  const hn::CappedTag<float, kLanes> d;
  hn::Vec<decltype(d)> sums[kCount][kVectors];
  const float* from[kCount];
  for (size_t j = 0; j < kCount; ++j) {
    from[j] = factors.first + (row + j) * factors.stride;
    for (size_t v = 0; v < kVectors; ++v) sums[j][v] = hn::LoadU(d, out.row(row + j) + v * kLanes);
  }
  for (size_t k = 0; k < factors.depth; ++k) {
    hn::Vec<decltype(d)> scale[kCount];
    for (size_t j = 0; j < kCount; ++j) scale[j] = hn::Set(d, from[j][k]);
    for (size_t v = 0; v < kVectors; ++v) {
      const auto vector = hn::LoadU(d, panel.row(k) + v * kLanes);
      for (size_t j = 0; j < kCount; ++j) sums[j][v] = hn::MulAdd(scale[j], vector, sums[j][v]);
    }
  }
  for (size_t j = 0; j < kCount; ++j) {
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[j][v], d, out.row(row + j) + v * kLanes);
  }
}

void AddPanelProductsLanes(const PanelFactors& factors, const ConstPanel& panel, const Panel& out) {
  // A part of the panel that stays in the first cache while all rows use it.
  constexpr size_t kDepth = 128;
  for (size_t first = 0; first < factors.depth; first += kDepth) {
    const PanelFactors some{factors.first + first, factors.stride, factors.count,
                            HWY_MIN(kDepth, factors.depth - first)};
    const ConstPanel part{panel.row(first), panel.stride};
    size_t row = 0;
    for (; row + kRows <= factors.count; row += kRows) AddRows<kRows>(some, row, part, out);
    for (; row < factors.count; ++row) AddRows<1>(some, row, part, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(AddPanelProductsLanes);

void AddPanelProducts(const PanelFactors& factors, const ConstPanel& panel, const Panel& out) {
  HWY_DYNAMIC_DISPATCH(AddPanelProductsLanes)(factors, panel, out);
}

void AddPanelProductsRef(const PanelFactors& factors, const ConstPanel& panel, const Panel& out) {
  for (size_t j = 0; j < factors.count; ++j) {
    for (size_t k = 0; k < factors.depth; ++k) {
      for (size_t c = 0; c < kPanelColumns; ++c)
        out.row(j)[c] += factors.first[j * factors.stride + k] * panel.row(k)[c];
    }
  }
}

}  // namespace moepack::runtime
#endif
