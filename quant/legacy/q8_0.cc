#include "quant/legacy/q8_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/legacy/q8_0.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "quant/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Halves are rounded away from zero, as std::round does; |value| is below 2^31.
HWY_INLINE V RoundAwayFromZero(V value) {
  const V whole = hn::Trunc(value);
  const M up = hn::Ge(hn::Abs(hn::Sub(value, whole)), Splat(0.5f));
  return hn::Add(whole, hn::IfThenElseZero(up, hn::CopySign(Splat(1.0f), value)));
}

// Returns false if only the reference knows the result: for NaN, and for a scale without an
// inverse.
HWY_INLINE bool EncodeBlock(const float* x, BlockQ80& block) {
  const D d;
  const hn::Rebind<int8_t, D> bytes;
  V largest = hn::Zero(d);
  M no_nan = AllLanes();
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    const V xi = hn::LoadU(d, x + i);
    largest = hn::Max(hn::Abs(xi), largest);
    no_nan = hn::And(no_nan, hn::Eq(xi, xi));
  }
  const float scale = hn::GetLane(hn::MaxOfLanes(d, largest)) / 127.0f;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  if (!hn::AllTrue(d, no_nan) || !std::isfinite(scale) || !std::isfinite(inverse)) return false;
  block.d = ScaleToHalf(scale);
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    const V level = RoundAwayFromZero(hn::Mul(hn::LoadU(d, x + i), Splat(inverse)));
    hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(DI(), level)), bytes, block.qs + i);
  }
  return true;
}

void EncodeQ80Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ80Ref(values, importance, out);
  EncodeBlocksOr<BlockQ80>(EncodeQ80Ref, values, out, EncodeBlock);
}

HWY_INLINE void DecodeBlockQ80(const uint8_t* block, float* out) {
  const auto* const q = reinterpret_cast<const int8_t*>(block + offsetof(BlockQ80, qs));
  const Scaled value{Splat(LoadHalf(block + offsetof(BlockQ80, d)))};
  for (size_t i = 0; i < kGroup32; i += LaneCount()) {
    hn::StoreU(value.Of(LoadBytes(D(), q + i)), D(), out + i);
  }
}

void DecodeQ80Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ80Ref(in, out);
  DecodeEach<BlockQ80, DecodeBlockQ80>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ80Lanes);

void EncodeQ80(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ80Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeQ80Lanes);

void DecodeQ80(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ80Lanes)(blocks, out);
}

}  // namespace quant
#endif
