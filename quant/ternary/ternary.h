// Shared by the ternary types: a value is -1, 0 or 1 times the largest magnitude of its block.
#pragma once

#include "quant/blocks.h"
#include "quant/k_quants/k_bits.h"

namespace quant {

// The scale of a block, its largest magnitude, and the factor that turns values into -1 ... 1. The
// factor is 0 if there is no finite inverse; all values then become 0, as in ggml.
struct TernaryScale {
  float scale, inverse;
};
TernaryScale TernaryScaleFor(float largest);

// Trits are stored as 0, 1 and 2 for -1, 0 and 1. Halves are rounded away from zero; NaN becomes 0.
inline uint8_t TritOf(float value) {
  if (value >= 0.5f) return 2;
  return value <= -0.5f ? 0 : 1;
}

// Finds the trits of a block and returns its scale.
float TernaryTrits(Values values, Levels& trits);

}  // namespace quant
