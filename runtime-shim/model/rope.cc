#include "runtime-shim/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moepack::runtime {
namespace {

// Returns the pair, as a real number, that makes `rotations` full turns within the original
// context: YaRN (arXiv 2309.00071), section 3.2, solved for the dimension; ggml_rope_yarn_corr_dim
// in ggml.
double PairOfRotations(const RopeSpec& rope, double rotations) {
  return rope.dims * std::log(rope.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.base));
}

// 1 for pairs that turn so often that they keep their frequency, 0 for pairs that are stretched,
// and a ramp in between.
struct Ramp {
  double low, high;
  double operator()(uint32_t pair) const {
    // ggml's rope_yarn_ramp has the same 0.001 to avoid a division by zero.
    const double place = (pair - low) / std::max(0.001, high - low);
    return 1 - std::clamp(place, 0.0, 1.0);
  }
};

Ramp YarnRamp(const RopeSpec& rope) {
  const double last = rope.dims - 1;
  return {std::max(0.0, std::floor(PairOfRotations(rope, rope.beta_fast))),
          std::min(last, std::ceil(PairOfRotations(rope, rope.beta_slow)))};
}

}  // namespace

std::vector<double> PairTurns(const RopeSpec& rope, std::span<const float> factors) {
  const Ramp ramp = YarnRamp(rope);
  std::vector<double> turns(rope.dims / 2);
  for (uint32_t pair = 0; pair < turns.size(); ++pair) {
    const double plain = std::pow(static_cast<double>(rope.base), -2.0 * pair / rope.dims) /
                         (factors.empty() ? 1.0 : factors[pair]);
    const double mix = rope.yarn_mix * ramp(pair);
    turns[pair] = plain * (rope.frequency_scale * (1 - mix) + mix);
  }
  return turns;
}

void FillTurns(const RopeSpec& rope, std::span<const double> turns, uint32_t first,
               std::span<float> out) {
  const size_t rows = out.size() / rope.dims;
  for (size_t row = 0; row < rows; ++row) {
    float* cosines = out.data() + row * rope.dims;
    float* sines = cosines + turns.size();
    for (size_t pair = 0; pair < turns.size(); ++pair) {
      const double angle = static_cast<double>(first + row) * turns[pair];
      cosines[pair] = static_cast<float>(std::cos(angle) * rope.attention_factor);
      sines[pair] = static_cast<float>(std::sin(angle) * rope.attention_factor);
    }
  }
}

}  // namespace moepack::runtime
