#pragma once

#include <array>

#include "quant/half.h"
#include "quant/k_quants/k_bits.h"
#include "quant/search/k_search.h"

namespace quant {

// q2_K: 256 values in 84 bytes (2.625 bits each). Little-endian, no alignment required.
//
//   bytes    field    meaning
//   0-15     scales   one byte per group of 16: bits 0-3 scale, bits 4-7 minimum
//   16-79    qs       2-bit values; in each run of 128, byte l holds values l, l + 32, l + 64 and
//                     l + 96, the first in its lowest bits
//   80-81    d        F16, scale of the group scales
//   82-83    dmin     F16, scale of the group minimums
//
// value[i] = d * scale[g] * q[i] - dmin * min[g],  g = i / 16.
struct BlockQ2K {
  static constexpr size_t kValues = kSuperBlock;
  static constexpr size_t kGroups = 16;
  uint8_t scales[kGroups];
  uint8_t qs[64];
  uint16_t d, dmin;

  // d * scale and dmin * min.
  ScaleAndMin Group(size_t group) const;
};
static_assert(sizeof(BlockQ2K) == 84);

inline ScaleAndMin BlockQ2K::Group(size_t group) const {
  return {HalfToFloat(d) * static_cast<float>(scales[group] & 15),
          HalfToFloat(dmin) * static_cast<float>(scales[group] >> 4)};
}

inline constexpr int kQ2KTop = 3;          // of a value
inline constexpr int kQ2KTopOfScale = 15;  // of a group's scale or minimum
inline constexpr ScaleGrid kQ2KPlainGrid = {
    .levels = kQ2KTop, .first = -0.5f, .step = 0.1f, .last = 15, .absolute_error = true};
inline constexpr ScaleGrid kQ2KImportanceGrid = {
    .levels = kQ2KTop, .first = -0.9f, .step = 0.05f, .last = 36};

using FloatsQ2K = std::array<float, BlockQ2K::kGroups>;
using LevelsQ2K = std::array<uint8_t, BlockQ2K::kGroups>;

// Make everything in a block but qs. Without importance the largest scale gets 15, and so does the
// largest minimum.
BlockQ2K RoundQ2KToLargest(const FloatsQ2K& scales, const FloatsQ2K& mins);
BlockQ2K MakeScalesQ2K(float d, float dmin, const LevelsQ2K& scales, const LevelsQ2K& mins);

// Encoder and Decoder of format.h.
void EncodeQ2K(std::span<const float> values, std::span<const float> importance,
               std::span<std::byte> out);
void EncodeQ2KRef(std::span<const float> values, std::span<const float> importance,
                  std::span<std::byte> out);
void DecodeQ2K(std::span<const std::byte> blocks, std::span<float> out);
void DecodeQ2KRef(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace quant
