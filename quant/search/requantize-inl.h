// The last step of the k-quants: finds the integers for rounded scales, block by block, with
// neighbouring values in the lanes.
#if defined(QUANT_REQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_REQUANTIZE_INL_H_
#undef QUANT_REQUANTIZE_INL_H_
#else
#define QUANT_REQUANTIZE_INL_H_
#endif

#include "quant/lanes-inl.h"
#include "quant/search/k_search.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

HWY_INLINE void StoreLevels(VI level, uint8_t* q) {
  const hn::Rebind<uint8_t, D> bytes;
  hn::StoreU(hn::DemoteTo(bytes, level), bytes, q);
}

HWY_INLINE void StoreSigned(VI level, int levels, uint8_t* q) {
  const VI clamped = ClampLevel(level, -levels, levels - 1);
  StoreLevels(hn::Add(clamped, hn::Set(DI(), levels)), q);
}

// q = (x + min) / scale, rounded to nearest. `count` is a multiple of the number of lanes.
HWY_INLINE void RequantizeAbove(const float* x, size_t count, ScaleAndMin fit, int levels,
                                uint8_t* q) {
  const D d;
  const V min = Splat(fit.min), scale = Splat(fit.scale);
  for (size_t i = 0; i < count; i += LaneCount()) {
    const V value = hn::Div(hn::Add(hn::LoadU(d, x + i), min), scale);
    StoreLevels(ClampLevel(NearestIntOf(value), 0, levels), q + i);
  }
}

// q = (x - min) * inverse, rounded to nearest: the integers of a search, for scales that were
// rounded to 0.
HWY_INLINE void QuantizeAbove(const float* x, size_t count, float used_min, float inverse,
                              int levels, uint8_t* q) {
  const D d;
  const V min = Splat(used_min), inverse_lanes = Splat(inverse);
  for (size_t i = 0; i < count; i += LaneCount()) {
    const V value = hn::Mul(inverse_lanes, hn::Sub(hn::LoadU(d, x + i), min));
    StoreLevels(ClampLevel(NearestIntOf(value), 0, levels), q + i);
  }
}

// q = levels + x / scale, rounded to nearest.
HWY_INLINE void RequantizeSigned(const float* x, size_t count, float scale, int levels,
                                 uint8_t* q) {
  const V scale_lanes = Splat(scale);
  for (size_t i = 0; i < count; i += LaneCount()) {
    const VI level = NearestIntOf(hn::Div(hn::LoadU(D(), x + i), scale_lanes));
    StoreSigned(level, levels, q + i);
  }
}

// q = levels + x * inverse, rounded to nearest.
HWY_INLINE void QuantizeSigned(const float* x, size_t count, float inverse, int levels,
                               uint8_t* q) {
  const V inverse_lanes = Splat(inverse);
  for (size_t i = 0; i < count; i += LaneCount()) {
    const VI level = NearestIntOf(hn::Mul(inverse_lanes, hn::LoadU(D(), x + i)));
    StoreSigned(level, levels, q + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
