#include "quant/ternary/ternary.h"

#include <cmath>

#include "quant/search/k_search.h"

namespace quant {

// Below 2^-128 ggml multiplies by an infinite inverse and rounds the result to 0.
TernaryScale TernaryScaleFor(float largest) {
  const float inverse = largest != 0 ? 1.0f / largest : 0.0f;
  return {largest, std::isfinite(inverse) ? inverse : 0.0f};
}

float TernaryTrits(Values values, Levels& trits) {
  const TernaryScale fit = TernaryScaleFor(std::abs(LargestByMagnitude(values)));
  for (size_t i = 0; i < kSuperBlock; ++i) trits[i] = TritOf(values[i] * fit.inverse);
  return fit.scale;
}

}  // namespace quant
