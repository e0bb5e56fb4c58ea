// Types without blocks: one value, one number, little-endian.
//
//   f32       IEEE binary32
//   f16       IEEE binary16
//   bf16      the upper half of a binary32
//   f64       IEEE binary64 (read only; rounded to float, too large becomes infinity)
//   f8_e4m3   1 sign, 4 exponent, 3 mantissa bits, no infinity (read only)
//   f8_e5m2   the upper half of a binary16 (read only)
//
// The conversions are in half.h; none of them uses the importance.
#pragma once

#include <cstddef>
#include <span>

namespace quant {

void EncodeF32Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void EncodeF16Ref(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void EncodeBf16Ref(std::span<const float> values, std::span<const float> importance,
                   std::span<std::byte> out);

void DecodeF32Ref(std::span<const std::byte> blocks, std::span<float> out);
void DecodeF16Ref(std::span<const std::byte> blocks, std::span<float> out);
void DecodeBf16Ref(std::span<const std::byte> blocks, std::span<float> out);
void DecodeF64Ref(std::span<const std::byte> blocks, std::span<float> out);
void DecodeF8E4M3Ref(std::span<const std::byte> blocks, std::span<float> out);
void DecodeF8E5M2Ref(std::span<const std::byte> blocks, std::span<float> out);

// The same with vectors.
void EncodeF16(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeBf16(std::span<const float> values, std::span<const float> importance,
                std::span<std::byte> out);

void DecodeF16(std::span<const std::byte> blocks, std::span<float> out);
void DecodeBf16(std::span<const std::byte> blocks, std::span<float> out);
void DecodeF64(std::span<const std::byte> blocks, std::span<float> out);
void DecodeF8E4M3(std::span<const std::byte> blocks, std::span<float> out);
void DecodeF8E5M2(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
