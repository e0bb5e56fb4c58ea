#include "quant/tables/iq4.h"

#include <cmath>

#include "quant/legacy/nibbles.h"
#include "quant/search/k_search.h"

namespace quant {
namespace {

using Weights = std::array<float, kGroup32>;

Weights WeightsOf(Values values, Values importance, float spread) {
  Weights weights;
  if (!importance.empty()) {
    WeighByImportance(values, importance, spread, weights);
    return weights;
  }
  for (size_t i = 0; i < kGroup32; ++i) weights[i] = values[i] * values[i];
  return weights;
}

// The sums of w * code * x and w * code^2 over a group with the codes that fit a scale. As in
// LevelFit, their quotient is the best scale for these codes.
struct CodeFit {
  float qx = 0, qq = 0;
};

CodeFit FitAtScale(Values values, const Weights& weights, float inverse) {
  CodeFit fit;
  for (size_t i = 0; i < kGroup32; ++i) {
    const float code = kIq4Codes[NearestIq4Code(inverse * values[i])];
    fit.qx += weights[i] * code * values[i];
    fit.qq += weights[i] * code * code;
  }
  return fit;
}

}  // namespace

float FitIq4Scale(Values values, Values importance, float spread) {
  const float largest = LargestByMagnitude(values);
  if (std::abs(largest) < kZeroGroup) return 0;
  const Weights weights = WeightsOf(values, importance, spread);
  const float lowest = kIq4Codes.front();
  const float inverse = 1 / (-largest / lowest);
  const CodeFit first = FitAtScale(values, weights, inverse);
  float scale = first.qq > 0 ? first.qx / first.qq : 0.0f;
  float best = scale * first.qx;
  // The largest value is put up to seven units away from the lowest code. 7 is ggml's `ntry`.
  for (int step = -7; step <= 7; ++step) {
    const CodeFit fit = FitAtScale(values, weights, (static_cast<float>(step) + lowest) / largest);
    if (!(fit.qq > 0 && fit.qx * fit.qx > best * fit.qq)) continue;
    scale = fit.qx / fit.qq;
    best = scale * fit.qx;
  }
  return scale;
}

float Iq4Spread(Values block) {
  return SumOfSquares(block) * (2.0f / static_cast<float>(block.size()));
}

}  // namespace quant
