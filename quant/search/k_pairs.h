// Shared by q4_K and q5_K: eight groups of 32 values, each with a scale and a minimum of six bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/half.h"
#include "quant/k_quants/k_bits.h"
#include "quant/search/k_search.h"

namespace quant {

// The first 16 bytes of both blocks.
//
//   bytes   field        meaning
//   0-1     d            F16, scale of the eight group scales
//   2-3     dmin         F16, scale of the eight group minimums
//   4-7     packed[j]    bits 0-5: scale j, bits 6-7: upper bits of scale j + 4; j in 0 ... 3
//   8-11    packed[4+j]  bits 0-5: minimum j, bits 6-7: upper bits of minimum j + 4
//   12-15   packed[8+j]  bits 0-3: lower bits of scale j + 4, bits 4-7: of minimum j + 4
//
// value[i] = d * scale[g] * q[i] - dmin * min[g],  g = i / 32.
struct ScalePairs {
  static constexpr size_t kGroups = 8;
  static constexpr size_t kGroupValues = 32;

  uint16_t d, dmin;
  uint8_t packed[12];

  uint8_t ScaleOf(size_t group) const;
  uint8_t MinOf(size_t group) const;
  // d * scale and dmin * min.
  ScaleAndMin Group(size_t group) const;
};
static_assert(sizeof(ScalePairs) == 16);

inline uint8_t ScalePairs::ScaleOf(size_t group) const {
  if (group < 4) return packed[group] & 63;
  return static_cast<uint8_t>((packed[group + 4] & 15) | packed[group - 4] >> 6 << 4);
}

inline uint8_t ScalePairs::MinOf(size_t group) const {
  if (group < 4) return packed[group + 4] & 63;
  return static_cast<uint8_t>(packed[group + 4] >> 4 | packed[group] >> 6 << 4);
}

inline ScaleAndMin ScalePairs::Group(size_t group) const {
  return {HalfToFloat(d) * static_cast<float>(ScaleOf(group)),
          HalfToFloat(dmin) * static_cast<float>(MinOf(group))};
}

// The differences between the searches of the two formats.
struct PairSearch {
  ScaleGrid plain, with_importance;
  // reduce levels above 63, which only a negative scale gives, to 63, as ggml does for q5_K
  bool cap_searched;
};

inline constexpr int kPairTop = 63;  // of the six bits of a scale or minimum

using PairFloats = std::array<float, ScalePairs::kGroups>;
using PairLevels = std::array<uint8_t, ScalePairs::kGroups>;

// Levels above 63, which a search may produce, spill into other bits, as in ggml.
ScalePairs MakePairs(float d, float dmin, const PairLevels& scales, const PairLevels& mins);

void CapPairLevels(PairLevels& levels);  // at kPairTop

// Finds the scales and the integers of a block; importance may be empty.
ScalePairs FitPairs(Values values, Values importance, const PairSearch& search, Levels& q);

}  // namespace quant
