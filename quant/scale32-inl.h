// What q4_0, q4_1, q5_0 and q5_1 have in common (scale32.h). Without importance nothing is
// searched: one block after the other with neighbours in the lanes. With importance blocks are in
// the lanes.
#if defined(QUANT_SCALE32_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SCALE32_INL_H_
#undef QUANT_SCALE32_INL_H_
#else
#define QUANT_SCALE32_INL_H_
#endif

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "quant/lanes-inl.h"
#include "quant/requantize-inl.h"
#include "quant/scale32.h"
#include "quant/search_range-inl.h"
#include "quant/search_signed-inl.h"
#include "quant/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

struct Extent32 {
  float min, max;
  bool no_nan;
};

HWY_INLINE Extent32 Extent32Of(const float* x) {
  const D d;
  V min = hn::LoadU(d, x), max = min;
  M no_nan = hn::Eq(min, min);
  for (size_t i = LaneCount(); i < kGroup32; i += LaneCount()) {
    const V xi = hn::LoadU(d, x + i);
    min = hn::Min(xi, min);
    max = hn::Max(xi, max);
    no_nan = hn::And(no_nan, hn::Eq(xi, xi));
  }
  return {hn::GetLane(hn::MinOfLanes(d, min)), hn::GetLane(hn::MaxOfLanes(d, max)),
          hn::AllTrue(d, no_nan)};
}

// q = whole part of (x - min) * inverse + offset, at most `highest`; nothing here is below 0 or
// large.
HWY_INLINE void TruncateLevels(const float* x, float min, float inverse, float offset, int highest,
                               uint8_t* q) {
  const D d;
  const DI di;
  const V min_lanes = Splat(min), inverse_lanes = Splat(inverse), offset_lanes = Splat(offset);
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    const V above = hn::Sub(hn::LoadU(d, x + i), min_lanes);
    const VI level = hn::ConvertTo(di, hn::Add(hn::Mul(above, inverse_lanes), offset_lanes));
    StoreLevels(hn::Min(level, hn::Set(di, highest)), q + i);
  }
}

// FitScale and FitRange of scale32.h without importance. False for blocks that only the reference
// knows: NaN, a scale without inverse, and extremes of which the first in the block counts.
HWY_INLINE bool FitPlainScale(const float* x, int levels, float& scale, uint8_t* q) {
  const Extent32 extent = Extent32Of(x);
  if (!extent.no_nan || extent.max == -extent.min) return false;
  const float largest = extent.max > -extent.min ? extent.max : extent.min;
  scale = largest / -static_cast<float>(levels);
  const float inverse = 1.0f / scale;
  if (!std::isfinite(inverse) || !std::isfinite(scale)) return false;
  TruncateLevels(x, 0.0f, inverse, static_cast<float>(levels) + 0.5f, 2 * levels - 1, q);
  return true;
}

HWY_INLINE bool FitPlainRange(const float* x, int levels, ScaleAndMin& fit, uint8_t* q) {
  const Extent32 extent = Extent32Of(x);
  if (!extent.no_nan || extent.min == 0) return false;
  fit = {(extent.max - extent.min) / static_cast<float>(levels), extent.min};
  const float inverse = 1.0f / fit.scale;
  if (!std::isfinite(inverse) || !std::isfinite(fit.scale)) return false;
  TruncateLevels(x, fit.min, inverse, 0.5f, levels, q);
  return true;
}

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

// Values and weights of the blocks of all lanes.
struct WeightedLanes {
  HWY_ALIGN float x[kGroup32 * kMaxLanes];
  HWY_ALIGN float w[kGroup32 * kMaxLanes];
  HWY_ALIGN float spread[kMaxLanes];
};

HWY_INLINE void LoadWeighted(const LaneBlocks& blocks, const std::vector<float>& spreads,
                             WeightedLanes& lanes) {
  for (size_t lane = 0; lane < LaneCount(); ++lane) {
    const size_t block = blocks.first + std::min(lane, blocks.count - 1);
    lanes.spread[lane] = spreads[block * kGroup32 / blocks.importance.size()];
  }
  LoadTransposed(blocks.value, 0, kGroup32, lanes.x);
  LoadTransposed(blocks.weight, 0, kGroup32, lanes.w);
  WeighByImportance<kGroup32>(lanes.x, hn::Load(D(), lanes.spread), lanes.w);
}

HWY_INLINE Block32 BlockOfLane(const LaneBlocks& blocks, size_t lane, const WeightedLanes& lanes) {
  return {{blocks.value[lane], kGroup32}, {blocks.weight[lane], kGroup32}, lanes.spread[lane]};
}

// make(scale, q) -> Block; reference(Block32) -> Block.
template <class Block, int kLevels, class Make, class Reference>
HWY_INLINE void FitScaleOfLanes(const LaneBlocks& blocks, const WeightedLanes& lanes,
                                const Make& make, const Reference& reference,
                                std::span<Block> out) {
  HWY_ALIGN float scale[kMaxLanes], inverse[kMaxLanes];
  bool zero[kMaxLanes], exact[kMaxLanes];
  const SignedFit fit = FitSignedLanes<kGroup32>(lanes.x, lanes.w, kLevels);
  hn::Store(fit.scale, D(), scale);
  hn::Store(fit.used_inverse, D(), inverse);
  StoreMask(fit.zero, zero);
  StoreMask(fit.exact, exact);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    std::array<uint8_t, kGroup32> q{};
    if (!exact[lane]) {
      out[lane] = reference(BlockOfLane(blocks, lane, lanes));
      continue;
    }
    if (!zero[lane]) QuantizeSigned(blocks.value[lane], kGroup32, inverse[lane], kLevels, q.data());
    out[lane] = make(scale[lane], q);
  }
}

// make(ScaleAndMin, q) -> Block.
template <class Block, int kLevels, class Make, class Reference>
HWY_INLINE void FitRangeOfLanes(const LaneBlocks& blocks, const WeightedLanes& lanes,
                                const Make& make, const Reference& reference,
                                std::span<Block> out) {
  constexpr ScaleGrid kGrid = {.levels = kLevels, .first = -0.9f, .step = 0.05f, .last = 36};
  HWY_ALIGN float scale[kMaxLanes], min[kMaxLanes], used_min[kMaxLanes], inverse[kMaxLanes];
  bool flat[kMaxLanes], exact[kMaxLanes];
  const RangeFit fit = FitRangeLanes<kGroup32, false>(lanes.x, lanes.w, kGrid);
  hn::Store(fit.scale, D(), scale);
  hn::Store(fit.min, D(), min);
  hn::Store(fit.used_min, D(), used_min);
  hn::Store(fit.used_inverse, D(), inverse);
  StoreMask(fit.flat, flat);
  StoreMask(fit.exact, exact);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    std::array<uint8_t, kGroup32> q{};
    if (!exact[lane]) {
      out[lane] = reference(BlockOfLane(blocks, lane, lanes));
      continue;
    }
    if (!flat[lane]) {
      QuantizeAbove(blocks.value[lane], kGroup32, used_min[lane], inverse[lane], kLevels, q.data());
    }
    out[lane] = make(ScaleAndMin{scale[lane], min[lane]}, q);
  }
}

// fit(x, result, q) -> bool, one of the two above.
template <class Block, class Fit, class Result, class Make, class Reference>
HWY_INLINE void EncodePlain(const EncodeRun& run, const Fit& fit, Result result, const Make& make,
                            const Reference& reference) {
  EncodeBlocks<Block>(run.values, {}, run.out, [&](Values x, Values) {
    std::array<uint8_t, kGroup32> q;
    if (!fit(x.data(), result, q.data())) return reference(Block32{x, {}, 0});
    return make(result, q);
  });
}

template <class Block, int kLevels, class Make, class Reference>
HWY_INLINE void EncodeScaled(const EncodeRun& run, const Make& make, const Reference& reference) {
  if (run.importance.empty()) {
    const auto fit = [](const float* x, float& scale, uint8_t* q) {
      return FitPlainScale(x, kLevels, scale, q);
    };
    return EncodePlain<Block>(run, fit, float{}, make, reference);
  }
  const std::vector<float> spreads = SpreadsOfRows(run.values, run.importance.size());
  EncodeInLanes<Block>(run, LaneCount(), nullptr, [&](const LaneBlocks& blocks, auto out) {
    WeightedLanes lanes;
    LoadWeighted(blocks, spreads, lanes);
    FitScaleOfLanes<Block, kLevels>(blocks, lanes, make, reference, out);
  });
}

template <class Block, int kLevels, class Make, class Reference>
HWY_INLINE void EncodeRanged(const EncodeRun& run, const Make& make, const Reference& reference) {
  if (run.importance.empty()) {
    const auto fit = [](const float* x, ScaleAndMin& found, uint8_t* q) {
      return FitPlainRange(x, kLevels, found, q);
    };
    return EncodePlain<Block>(run, fit, ScaleAndMin{}, make, reference);
  }
  const std::vector<float> spreads = SpreadsOfRows(run.values, run.importance.size());
  EncodeInLanes<Block>(run, LaneCount(), nullptr, [&](const LaneBlocks& blocks, auto out) {
    WeightedLanes lanes;
    LoadWeighted(blocks, spreads, lanes);
    FitRangeOfLanes<Block, kLevels>(blocks, lanes, make, reference, out);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
