// Blocks of 32 with importance (scale32.h): the lanes hold blocks.
#if defined(QUANT_WEIGHTED32_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_WEIGHTED32_INL_H_
#undef QUANT_WEIGHTED32_INL_H_
#else
#define QUANT_WEIGHTED32_INL_H_
#endif

#include <algorithm>
#include <array>
#include <vector>

#include "quant/search/requantize-inl.h"
#include "quant/search/scale32.h"
#include "quant/search/search_range-inl.h"
#include "quant/search/search_signed-inl.h"
#include "quant/search/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Block32::spread of every row.
HWY_INLINE std::vector<float> SpreadsOfRows(Values values, size_t row) {
  const size_t count = values.size() / row;
  std::vector<float> spreads(count);
  HWY_ALIGN float x[kGroup32 * kMaxLanes], spread[kMaxLanes];
  for (size_t first = 0; first < count; first += LaneCount()) {
    const float* rows[kMaxLanes];
    for (size_t lane = 0; lane < LaneCount(); ++lane) {
      rows[lane] = values.data() + std::min(first + lane, count - 1) * row;
    }
    V sum = hn::Zero(D());
    for (size_t i = 0; i < row; i += kGroup32) {
      LoadTransposed(rows, i, kGroup32, x);
      sum = AddSquares<kGroup32>(x, sum);
    }
    hn::Store(hn::Div(sum, Splat(static_cast<float>(row))), D(), spread);
    const size_t used = std::min(LaneCount(), count - first);
    std::copy(spread, spread + used, spreads.begin() + static_cast<ptrdiff_t>(first));
  }
  return spreads;
}

// Block32::spread of every lane's block.
struct LaneSpreads {
  HWY_ALIGN float lane[kMaxLanes];

  HWY_INLINE LaneSpreads(const LaneBlocks& blocks, const std::vector<float>& of_rows) {
    for (size_t i = 0; i < LaneCount(); ++i) {
      const size_t block = blocks.first + std::min(i, blocks.count - 1);
      lane[i] = of_rows[block * kGroup32 / blocks.importance.size()];
    }
  }
  HWY_INLINE V Load() const { return hn::Load(D(), lane); }
  HWY_INLINE Block32 BlockOf(const LaneBlocks& blocks, size_t i) const {
    return {{blocks.value[i], kGroup32}, {blocks.weight[i], kGroup32}, lane[i]};
  }
};

// make(scale, q) -> Block; reference(Block32) -> Block.
template <class Block, int kLevels, class Make, class Reference>
HWY_INLINE void FitScaleOfLanes(const LaneBlocks& blocks, const LaneSpreads& spreads,
                                const Make& make, const Reference& reference,
                                std::span<Block> out) {
  HWY_ALIGN float scale[kMaxLanes], inverse[kMaxLanes];
  bool zero[kMaxLanes], exact[kMaxLanes];
  HWY_ALIGN float x[kGroup32 * kMaxLanes], w[kGroup32 * kMaxLanes];
  LoadTransposed(blocks.value, 0, kGroup32, x);
  LoadTransposed(blocks.weight, 0, kGroup32, w);
  WeighByImportance<kGroup32>(x, spreads.Load(), w);
  const SignedFit fit = FitSignedLanes<kGroup32>(x, w, kLevels);
  hn::Store(fit.scale, D(), scale);
  hn::Store(fit.used_inverse, D(), inverse);
  StoreMask(fit.zero, zero);
  StoreMask(fit.exact, exact);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    std::array<uint8_t, kGroup32> q{};
    if (!exact[lane]) {
      out[lane] = reference(spreads.BlockOf(blocks, lane));
      continue;
    }
    if (!zero[lane]) QuantizeSigned(blocks.value[lane], kGroup32, inverse[lane], kLevels, q.data());
    out[lane] = make(scale[lane], q);
  }
}

// make(ScaleAndMin, q) -> Block.
template <class Block, int kLevels, class Make, class Reference>
HWY_INLINE void FitRangeOfLanes(const LaneBlocks& blocks, const LaneSpreads& spreads,
                                const Make& make, const Reference& reference,
                                std::span<Block> out) {
  constexpr ScaleGrid kGrid = {.levels = kLevels, .first = -0.9f, .step = 0.05f, .last = 36};
  HWY_ALIGN float scale[kMaxLanes], min[kMaxLanes], used_min[kMaxLanes], inverse[kMaxLanes];
  bool flat[kMaxLanes], exact[kMaxLanes];
  using Groups = RangeGroups<kGroup32, 1>;
  Groups groups;
  LoadTransposed(blocks.value, 0, kGroup32, groups.Values(0), Groups::kStep);
  LoadTransposed(blocks.weight, 0, kGroup32, groups.Weights(0), Groups::kStep);
  WeighByImportance<kGroup32, Groups::kStep>(groups.Values(0), spreads.Load(), groups.Weights(0));
  RangeFit fits[1];
  FitRangeLanes<false>(groups, kGrid, fits);
  const RangeFit& fit = fits[0];
  hn::Store(fit.scale, D(), scale);
  hn::Store(fit.min, D(), min);
  hn::Store(fit.used_min, D(), used_min);
  hn::Store(fit.used_inverse, D(), inverse);
  StoreMask(fit.flat, flat);
  StoreMask(fit.exact, exact);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    std::array<uint8_t, kGroup32> q{};
    if (!exact[lane]) {
      out[lane] = reference(spreads.BlockOf(blocks, lane));
      continue;
    }
    if (!flat[lane]) {
      QuantizeAbove(blocks.value[lane], kGroup32, used_min[lane], inverse[lane], kLevels, q.data());
    }
    out[lane] = make(ScaleAndMin{scale[lane], min[lane]}, q);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
