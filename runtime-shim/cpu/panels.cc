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
constexpr size_t kBytes = 0;
#elif HWY_TARGET <= HWY_AVX3
constexpr size_t kBytes = 64;
#elif HWY_TARGET <= HWY_AVX2
constexpr size_t kBytes = 32;
#else
constexpr size_t kBytes = 16;
#endif

// How many sums of a kind of numbers are in registers at once: kRows rows of kVectors vectors of a
// panel. 3 x 4 sums, 3 factors and a vector of the panel are the 16 registers of AVX2; 16 sums of
// AVX-512 hide the latency of its multiplications.
template <class Float>
struct Block {
  static constexpr size_t kLanes = kBytes == 0 ? 1 : kBytes / sizeof(Float);
  static constexpr size_t kAll = kPanelColumns / kLanes;
  static constexpr size_t kVectors = kBytes < 32 ? kAll : HWY_MIN(kAll, size_t{4});
  static constexpr size_t kRows = kBytes == 64 ? 16 / kVectors : kBytes == 32 ? 3 : 1;
};

// Columns of one panel from `column` on.
template <size_t kCount, class Float>
HWY_INLINE void AddRows(const PanelFactorsOf<Float>& factors, size_t row, size_t column,
                        const PanelOf<const Float>& panel, const PanelOf<Float>& out) {
  constexpr size_t kVectors = Block<Float>::kVectors, kLanes = Block<Float>::kLanes;
  const hn::CappedTag<Float, kLanes> d;
  hn::Vec<decltype(d)> sums[kCount][kVectors];
  const Float* from[kCount];
  for (size_t j = 0; j < kCount; ++j) {
    from[j] = factors.first + (row + j) * factors.stride;
    for (size_t v = 0; v < kVectors; ++v)
      sums[j][v] = hn::LoadU(d, out.row(row + j) + column + v * kLanes);
  }
  for (size_t k = 0; k < factors.depth; ++k) {
    hn::Vec<decltype(d)> scale[kCount];
    for (size_t j = 0; j < kCount; ++j) scale[j] = hn::Set(d, from[j][k]);
    for (size_t v = 0; v < kVectors; ++v) {
      const auto vector = hn::LoadU(d, panel.row(k) + column + v * kLanes);
      for (size_t j = 0; j < kCount; ++j) sums[j][v] = hn::MulAdd(scale[j], vector, sums[j][v]);
    }
  }
  for (size_t j = 0; j < kCount; ++j) {
    for (size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[j][v], d, out.row(row + j) + column + v * kLanes);
  }
}

template <class Float>
HWY_INLINE void AddProductsLanes(const PanelFactorsOf<Float>& factors,
                                 const PanelOf<const Float>& panel, const PanelOf<Float>& out) {
  using Own = Block<Float>;
  // A part of the panel that stays in the first cache while all rows use it.
  constexpr size_t kDepth = 512 / sizeof(Float);
  for (size_t first = 0; first < factors.depth; first += kDepth) {
    const PanelFactorsOf<Float> some{factors.first + first, factors.stride, factors.count,
                                     HWY_MIN(kDepth, factors.depth - first)};
    const PanelOf<const Float> part{panel.row(first), panel.stride};
    for (size_t column = 0; column < kPanelColumns; column += Own::kVectors * Own::kLanes) {
      size_t row = 0;
      for (; row + Own::kRows <= factors.count; row += Own::kRows)
        AddRows<Own::kRows>(some, row, column, part, out);
      for (; row < factors.count; ++row) AddRows<1>(some, row, column, part, out);
    }
  }
}

void AddPanelProductsLanes(const PanelFactors& factors, const ConstPanel& panel, const Panel& out) {
  AddProductsLanes<float>(factors, panel, out);
}

void AddDoubleProductsLanes(const DoubleFactors& factors, const ConstDoublePanel& panel,
                            const DoublePanel& out) {
  AddProductsLanes<double>(factors, panel, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(AddPanelProductsLanes);
HWY_EXPORT(AddDoubleProductsLanes);

void AddPanelProducts(const PanelFactors& factors, const ConstPanel& panel, const Panel& out) {
  HWY_DYNAMIC_DISPATCH(AddPanelProductsLanes)(factors, panel, out);
}

void AddDoubleProducts(const DoubleFactors& factors, const ConstDoublePanel& panel,
                       const DoublePanel& out) {
  HWY_DYNAMIC_DISPATCH(AddDoubleProductsLanes)(factors, panel, out);
}

namespace {

template <class Float>
void AddInTurn(const PanelFactorsOf<Float>& factors, const PanelOf<const Float>& panel,
               const PanelOf<Float>& out) {
  for (size_t j = 0; j < factors.count; ++j) {
    for (size_t k = 0; k < factors.depth; ++k) {
      for (size_t c = 0; c < kPanelColumns; ++c)
        out.row(j)[c] += factors.first[j * factors.stride + k] * panel.row(k)[c];
    }
  }
}

}  // namespace

void AddPanelProductsRef(const PanelFactors& factors, const ConstPanel& panel, const Panel& out) {
  AddInTurn(factors, panel, out);
}

void AddDoubleProductsRef(const DoubleFactors& factors, const ConstDoublePanel& panel,
                          const DoublePanel& out) {
  AddInTurn(factors, panel, out);
}

}  // namespace moepack::runtime
#endif
