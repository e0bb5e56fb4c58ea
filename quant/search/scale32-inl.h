// The encoders of q4_0 and q5_0 (one scale) and of q4_1 and q5_1 (scale and minimum).
#if defined(QUANT_SCALE32_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SCALE32_INL_H_
#undef QUANT_SCALE32_INL_H_
#else
#define QUANT_SCALE32_INL_H_
#endif

#include <array>
#include <cmath>

#include "quant/search/requantize-inl.h"
#include "quant/search/scale32.h"
#include "quant/search/weighted32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Blocks of 32 without importance (scale32.h). The extreme values decide and nothing is searched,
// so the lanes can hold neighbouring values.

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

// q = integer part of (x - min) * inverse + offset, at most `highest`. The sum is neither below 0
// nor large.
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

// FitScale and FitRange of scale32.h. They return false for blocks left to the reference: those
// with NaN, with a scale that has no inverse, or with two equal extremes, where the first in the
// block counts.
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

// fit(x, result, q) -> bool is one of the two above.
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
  EncodeInLanes<Block>(run, LaneCount(), [&](const LaneBlocks& blocks, auto out) {
    FitScaleOfLanes<Block, kLevels>(blocks, LaneSpreads(blocks, spreads), make, reference, out);
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
  EncodeInLanes<Block>(run, LaneCount(), [&](const LaneBlocks& blocks, auto out) {
    FitRangeOfLanes<Block, kLevels>(blocks, LaneSpreads(blocks, spreads), make, reference, out);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
