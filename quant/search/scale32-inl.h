// The encoders of q4_0 and q5_0 (one scale) and of q4_1 and q5_1 (scale and minimum).
#if defined(QUANT_SCALE32_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_SCALE32_INL_H_
#undef QUANT_SCALE32_INL_H_
#else
#define QUANT_SCALE32_INL_H_
#endif

#include "quant/search/plain32-inl.h"
#include "quant/search/weighted32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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
