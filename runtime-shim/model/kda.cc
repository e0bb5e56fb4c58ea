#include "runtime-shim/model/kda.h"

#include <cmath>

namespace moepack::runtime {

// For each token and head, with S the head's matrix, whose rows belong to the channels of the keys:
//
//   q, k, v = silu(convolution of the last `kernel` tokens);  q, k = q / |q|, k / |k|
//   S = diag(exp(lower_bound * sigmoid(rate * (decay + bias)))) * S
//   S = S + k (sigmoid(strength) * (v - S^T k))^T
//   o = S^T q / sqrt(width)
//   out = norm(o) * sigmoid(gate)

namespace {

// Queries, keys and values after the convolution, and the token's other numbers for one head.
struct KdaHead {
  std::span<const float> query, key, value, decay, bias, gate;
};

std::vector<float> Kept(const KdaShape& shape, float rate, const KdaHead& head) {
  std::vector<float> kept(shape.width);
  for (size_t i = 0; i < kept.size(); ++i) {
    const float gate = RecurrentSigmoid((head.decay[i] + head.bias[i]) * rate);
    kept[i] = std::exp(gate * shape.lower_bound);
  }
  return kept;
}

void NormAndGate(const KdaConstants& constants, std::span<const float> gate, std::span<float> out) {
  float squares = 0;
  for (const float value : out) squares += value * value;
  const float mean = squares / static_cast<float>(out.size());
  const float factor = 1 / std::sqrt(mean + constants.eps);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = out[i] * factor * constants.norm[i] * RecurrentSigmoid(gate[i]);
}

}  // namespace

void StepKda(const KdaShape& shape, const KdaConstants& constants, const KdaToken& token,
             RecurrentState& state, std::span<float> out) {
  const size_t width = shape.width, all = shape.values();
  std::vector<float> mixed(token.queries.begin(), token.queries.end());
  mixed.insert(mixed.end(), token.keys.begin(), token.keys.end());
  mixed.insert(mixed.end(), token.values.begin(), token.values.end());
  mixed = Convolve(shape.state(), {constants.kernel, {}}, mixed, state);
  for (size_t at = 0; at < all; at += width) {
    const auto own = [&](std::span<const float> values) { return values.subspan(at, width); };
    const std::span<float> query = std::span(mixed).subspan(at, width);
    const std::span<float> key = std::span(mixed).subspan(all + at, width);
    NormalizeTo(1 / std::sqrt(static_cast<float>(width)), constants.eps, query);
    NormalizeTo(1, constants.eps, key);
    const KdaHead head = {query,
                          key,
                          std::span(mixed).subspan(2 * all + at, width),
                          own(token.decay),
                          own(constants.bias),
                          own(token.gate)};
    StepDeltaHead({query, key, head.value, Kept(shape, constants.rate[at / width], head),
                   RecurrentSigmoid(token.strength[at / width])},
                  std::span(state.memory).subspan(at * width, width * width),
                  out.subspan(at, width));
    NormAndGate(constants, head.gate, out.subspan(at, width));
  }
  ++state.length;
}

}  // namespace moepack::runtime
