#include <cstring>

#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/plain.h"

namespace quant {
namespace {

template <class Number, class Convert>
void EncodeNumbers(Values values, std::span<std::byte> out, const Convert& convert) {
  assert(out.size() == values.size() * sizeof(Number));
  for (size_t i = 0; i < values.size(); ++i) {
    const Number number = convert(values[i]);
    std::memcpy(out.data() + i * sizeof(Number), &number, sizeof(Number));
  }
}

template <class Number, class Convert>
void DecodeNumbers(std::span<const std::byte> in, std::span<float> out, const Convert& convert) {
  assert(in.size() == out.size() * sizeof(Number));
  for (size_t i = 0; i < out.size(); ++i) {
    Number number;
    std::memcpy(&number, in.data() + i * sizeof(Number), sizeof(Number));
    out[i] = convert(number);
  }
}

// A double that rounds to more than the largest float becomes infinite. The plain conversion would
// be undefined behaviour.
float DoubleToFloat(double value) {
  constexpr double kRoundsToInfinity = 0x1.ffffffp127;
  if (std::abs(value) >= kRoundsToInfinity) {
    return std::copysign(std::numeric_limits<float>::infinity(), value > 0 ? 1.0f : -1.0f);
  }
  return static_cast<float>(value);
}

}  // namespace

// memcpy may not be given the null pointers of empty spans.
void EncodeF32Ref(Values values, Values, std::span<std::byte> out) {
  assert(out.size() == values.size_bytes());
  if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
}

void EncodeF16Ref(Values values, Values, std::span<std::byte> out) {
  EncodeNumbers<uint16_t>(values, out, FloatToHalf);
}

void EncodeBf16Ref(Values values, Values, std::span<std::byte> out) {
  EncodeNumbers<uint16_t>(values, out, FloatToBfloat16);
}

void DecodeF32Ref(std::span<const std::byte> blocks, std::span<float> out) {
  assert(blocks.size() == out.size_bytes());
  if (!out.empty()) std::memcpy(out.data(), blocks.data(), out.size_bytes());
}

void DecodeF16Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeNumbers<uint16_t>(blocks, out, HalfToFloat);
}

void DecodeBf16Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeNumbers<uint16_t>(blocks, out, Bfloat16ToFloat);
}

void DecodeF64Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeNumbers<double>(blocks, out, DoubleToFloat);
}

void DecodeF8E4M3Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeNumbers<uint8_t>(blocks, out, Float8E4M3ToFloat);
}

void DecodeF8E5M2Ref(std::span<const std::byte> blocks, std::span<float> out) {
  DecodeNumbers<uint8_t>(blocks, out, Float8E5M2ToFloat);
}

}  // namespace quant
