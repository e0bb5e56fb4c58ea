// FitIq4Scale and NearestIq4Code of iq4.h for every lane.
#if defined(QUANT_IQ4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_IQ4_INL_H_
#undef QUANT_IQ4_INL_H_
#else
#define QUANT_IQ4_INL_H_
#endif

#include "quant/legacy/nibbles-inl.h"
#include "quant/search/requantize-inl.h"
#include "quant/search/search_signed-inl.h"
#include "quant/search/weights-inl.h"
#include "quant/tables/iq4.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Returns the nearest of kIq4Codes. All partial sums are small integers, so the result is exact.
HWY_INLINE V NearestIq4Value(V value) {
  V code = Splat(kIq4Codes[0]);
  for (size_t k = 0; k < kIq4Limits.size(); ++k) {
    const V step = Splat(kIq4Codes[k + 1] - kIq4Codes[k]);
    code = hn::Add(code, hn::IfThenElseZero(hn::Ge(value, Splat(kIq4Limits[k])), step));
  }
  return code;
}

// The sums of w * code * x and w * code * code over the codes at a scale.
struct Iq4Sums {
  V qx, qq;
};

HWY_INLINE Iq4Sums SumIq4AtScale(const float* x, const float* w, V inverse) {
  const D d;
  Iq4Sums sums{hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0; i < kGroup32; ++i) {
    const V xi = hn::Load(d, x + i * LaneCount());
    const V code = NearestIq4Value(hn::Mul(inverse, xi));
    const V weighted = hn::Mul(hn::Load(d, w + i * LaneCount()), code);
    sums.qx = hn::Add(sums.qx, hn::Mul(weighted, xi));
    sums.qq = hn::Add(sums.qq, hn::Mul(weighted, code));
  }
  return sums;
}

struct Iq4Fit {
  V scale;
  M exact;
};

HWY_INLINE Iq4Fit FitIq4Lanes(const float* x, const float* w) {
  const D d;
  const SignedExtent extent = SignedExtentOf<kGroup32>(x);
  const V largest = extent.largest;
  const float lowest = kIq4Codes.front();
  const V inverse = hn::Div(Splat(1.0f), hn::Div(hn::Neg(largest), Splat(lowest)));
  const Iq4Sums first = SumIq4AtScale(x, w, inverse);
  V scale = hn::IfThenElseZero(hn::Gt(first.qq, hn::Zero(d)), hn::Div(first.qx, first.qq));
  V best = hn::Mul(scale, first.qx);
  for (int step = -7; step <= 7; ++step) {
    const V tried = hn::Div(Splat(static_cast<float>(step) + lowest), largest);
    const Iq4Sums sums = SumIq4AtScale(x, w, tried);
    const M better = hn::And(hn::Gt(sums.qq, hn::Zero(d)),
                             hn::Gt(hn::Mul(sums.qx, sums.qx), hn::Mul(best, sums.qq)));
    const V fitted = hn::Div(sums.qx, sums.qq);
    scale = hn::IfThenElse(better, fitted, scale);
    best = hn::IfThenElse(better, hn::Mul(fitted, sums.qx), best);
  }
  const M zero = hn::Lt(hn::Abs(largest), Splat(kZeroGroup));
  return {hn::IfThenZeroElse(zero, scale), IsFinite(extent)};
}

// Iq4Spread of iq4.h.
template <size_t kCount>
HWY_INLINE V Iq4SpreadOf(const float* x) {
  return hn::Mul(SumOfSquares<kCount>(x), Splat(2.0f / static_cast<float>(kCount)));
}

// x: one group of 32 of every lane; `spread` as in iq4.h.
HWY_INLINE Iq4Fit FitIq4Group(const LaneBlocks& blocks, size_t first, const float* x, V spread) {
  HWY_ALIGN float w[kGroup32 * kMaxLanes];
  if (blocks.weighted()) {
    LoadTransposed(blocks.weight, first, kGroup32, w);
    WeighByImportance<kGroup32>(x, spread, w);
  } else {
    WeighBySquare<kGroup32>(x, w);
  }
  return FitIq4Lanes(x, w);
}

// Finds the codes nearest to value * inverse for the 32 values of one group.
HWY_INLINE void NearestIq4Codes(const float* x, float inverse, uint8_t* q) {
  const D d;
  const V inverse_lanes = Splat(inverse), one = Splat(1.0f);
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    const V value = hn::Mul(inverse_lanes, hn::LoadU(d, x + i));
    V code = hn::Zero(d);
    for (const float limit : kIq4Limits) {
      code = hn::Add(code, hn::IfThenElseZero(hn::Ge(value, Splat(limit)), one));
    }
    code = hn::IfThenElse(hn::Eq(value, value), code, Splat(15.0f));
    StoreLevels(hn::ConvertTo(DI(), code), q + i);
  }
}

HWY_INLINE hn::Vec<DCodes> Iq4Codes() {
  HWY_ALIGN static constexpr std::array<int8_t, kIq4Codes.size()> kBytes = [] {
    std::array<int8_t, kIq4Codes.size()> bytes{};
    for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<int8_t>(kIq4Codes[k]);
    return bytes;
  }();
  return hn::Load(DCodes(), kBytes.data());
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
