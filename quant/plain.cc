#include "quant/plain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/plain.cc"
#include <hwy/foreach_target.h>

#include "quant/blocks.h"
#include "quant/format.h"
#include "quant/halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// The other functions of half.h, one line each.
HWY_INLINE VU HalfOf(VU bits) {
  const VU sign = hn::And(hn::ShiftRight<16>(bits), Bits(0x8000));
  const VU magnitude = hn::And(bits, Bits(0x7fffffff));
  const VU odd = hn::And(hn::ShiftRight<13>(magnitude), Bits(1));
  const VU shifted = hn::Sub(hn::Add(magnitude, Bits(0xfff)), Bits(112u << 23));
  VU half = hn::ShiftRight<13>(hn::Add(shifted, odd));
  const VU small = hn::Sub(AsBits(hn::Add(AsFloat(magnitude), Splat(0.5f))), Bits(0x3f000000));
  half = hn::IfThenElse(Above(magnitude, 0x387fffff), half, small);
  half = hn::IfThenElse(Above(magnitude, 0x477fefff), Bits(0x7c00), half);
  half = hn::IfThenElse(Above(magnitude, 0x7f800000), Bits(0x7e00), half);
  return hn::Or(sign, half);
}

HWY_INLINE VU Bfloat16Of(VU bits) {
  const VU odd = hn::And(hn::ShiftRight<16>(bits), Bits(1));
  const VU rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, Bits(0x7fff)), odd));
  const VU quiet = hn::Or(hn::ShiftRight<16>(bits), Bits(0x40));
  return hn::IfThenElse(Above(hn::And(bits, Bits(0x7fffffff)), 0x7f800000), quiet, rounded);
}

HWY_INLINE V FloatOfBfloat16(VU value) { return AsFloat(hn::ShiftLeft<16>(value)); }

HWY_INLINE V FloatOfF8E4M3(VU value) {
  const VU sign = hn::ShiftLeft<24>(hn::And(value, Bits(0x80)));
  const VU magnitude = hn::And(value, Bits(0x7f));
  const VU normal = hn::Add(hn::ShiftLeft<20>(magnitude), Bits(120u << 23));
  const V counted = hn::ConvertTo(D(), hn::BitCast(DI(), magnitude));
  const VU small = AsBits(hn::Mul(counted, Splat(0x1p-9f)));
  VU bits = hn::IfThenElse(Above(magnitude, 7), normal, small);
  bits = hn::IfThenElse(Above(magnitude, 0x7e), Bits(0x7fc00000), bits);
  return AsFloat(hn::Or(sign, bits));
}

HWY_INLINE V FloatOfF8E5M2(VU value) { return FloatOfHalf(hn::ShiftLeft<8>(value)); }

// convert(bits of a float) -> VU of 16 bits. The reference handles values that do not fill a
// vector.
template <class Convert>
HWY_INLINE void EncodeShort(Values values, std::span<std::byte> out, Encoder reference,
                            const Convert& convert) {
  if (!kHasVectors) return reference(values, {}, out);
  const hn::Rebind<uint16_t, D> shorts;
  const size_t whole = values.size() / LaneCount() * LaneCount();
  auto* const to = reinterpret_cast<uint16_t*>(out.data());
  for (size_t i = 0; i < whole; i += LaneCount()) {
    const VU bits = hn::BitCast(DU(), hn::LoadU(D(), values.data() + i));
    hn::StoreU(hn::DemoteTo(shorts, hn::BitCast(DI(), convert(bits))), shorts, to + i);
  }
  reference(values.subspan(whole), {}, out.subspan(whole * sizeof(uint16_t)));
}

// convert(VU of the number's bits) -> V.
template <class Number, class Convert>
HWY_INLINE void DecodeNumbers(std::span<const std::byte> in, std::span<float> out,
                              Decoder reference, const Convert& convert) {
  if (!kHasVectors) return reference(in, out);
  const hn::Rebind<Number, D> numbers;
  const size_t whole = out.size() / LaneCount() * LaneCount();
  const auto* const from = reinterpret_cast<const Number*>(in.data());
  for (size_t i = 0; i < whole; i += LaneCount()) {
    const VU bits = hn::PromoteTo(DU(), hn::LoadU(numbers, from + i));
    hn::StoreU(convert(bits), D(), out.data() + i);
  }
  reference(in.subspan(whole * sizeof(Number)), out.subspan(whole));
}

// The machine's conversion rounds to nearest, and gives infinity from 2^128 - 2^103 on.
void DecodeF64Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeF64Ref(in, out);
  const hn::CappedTag<double, kMaxLanes / 2> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  const size_t lanes = hn::Lanes(doubles), whole = out.size() / lanes * lanes;
  const auto* const from = reinterpret_cast<const double*>(in.data());
  for (size_t i = 0; i < whole; i += lanes) {
    const auto number = hn::LoadU(doubles, from + i);
    hn::StoreU(hn::DemoteTo(floats, number), floats, out.data() + i);
  }
  DecodeF64Ref(in.subspan(whole * sizeof(double)), out.subspan(whole));
}

void EncodeF16Lanes(Values values, Values, std::span<std::byte> out) {
  EncodeShort(values, out, EncodeF16Ref, HalfOf);
}

void EncodeBf16Lanes(Values values, Values, std::span<std::byte> out) {
  EncodeShort(values, out, EncodeBf16Ref, Bfloat16Of);
}

void DecodeF16Lanes(std::span<const std::byte> in, std::span<float> out) {
  DecodeNumbers<uint16_t>(in, out, DecodeF16Ref, FloatOfHalf);
}

#if HWY_MAX_BYTES == 16
// Zeros interleaved below eight numbers take the place of two loads, widenings and shifts.
void DecodeBf16Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeBf16Ref(in, out);
  const hn::Repartition<uint16_t, D> shorts;
  const size_t lanes = hn::Lanes(shorts), whole = out.size() / lanes * lanes;
  const auto* const from = reinterpret_cast<const uint16_t*>(in.data());
  for (size_t i = 0; i < whole; i += lanes) {
    const auto bits = hn::LoadU(shorts, from + i), zero = hn::Zero(shorts);
    const auto lower = hn::InterleaveLower(shorts, zero, bits);
    const auto upper = hn::InterleaveUpper(shorts, zero, bits);
    hn::StoreU(hn::BitCast(D(), lower), D(), out.data() + i);
    hn::StoreU(hn::BitCast(D(), upper), D(), out.data() + i + lanes / 2);
  }
  DecodeBf16Ref(in.subspan(whole * sizeof(uint16_t)), out.subspan(whole));
}
#else
void DecodeBf16Lanes(std::span<const std::byte> in, std::span<float> out) {
  DecodeNumbers<uint16_t>(in, out, DecodeBf16Ref, FloatOfBfloat16);
}
#endif

void DecodeF8E4M3Lanes(std::span<const std::byte> in, std::span<float> out) {
  DecodeNumbers<uint8_t>(in, out, DecodeF8E4M3Ref, FloatOfF8E4M3);
}

void DecodeF8E5M2Lanes(std::span<const std::byte> in, std::span<float> out) {
  DecodeNumbers<uint8_t>(in, out, DecodeF8E5M2Ref, FloatOfF8E5M2);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeF16Lanes);

void EncodeF16(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeF16Lanes)(values, importance, out);
}

HWY_EXPORT(EncodeBf16Lanes);

void EncodeBf16(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeBf16Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeF16Lanes);

void DecodeF16(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeF16Lanes)(blocks, out);
}

HWY_EXPORT(DecodeBf16Lanes);

void DecodeBf16(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeBf16Lanes)(blocks, out);
}

HWY_EXPORT(DecodeF64Lanes);

void DecodeF64(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeF64Lanes)(blocks, out);
}

HWY_EXPORT(DecodeF8E4M3Lanes);

void DecodeF8E4M3(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeF8E4M3Lanes)(blocks, out);
}

HWY_EXPORT(DecodeF8E5M2Lanes);

void DecodeF8E5M2(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeF8E5M2Lanes)(blocks, out);
}

}  // namespace quant
#endif
