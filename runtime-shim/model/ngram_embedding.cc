#include "runtime-shim/model/ngram_embedding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moepack::runtime {

std::vector<uint32_t> NgramRows(const NgramShape& shape, std::span<const uint32_t> tokens) {
  std::vector<uint32_t> rows;
  rows.reserve(shape.picks());
  uint64_t hash = tokens.back() * shape.multipliers[0];
  bool ended = false;
  for (uint32_t back = 1; back < shape.size; ++back) {
    ended = ended || back >= tokens.size() || tokens[tokens.size() - 1 - back] == shape.end;
    const uint64_t token = ended ? shape.end : tokens[tokens.size() - 1 - back];
    hash ^= token * shape.multipliers[back];
    for (uint32_t head = 0; head < shape.heads; ++head) {
      const size_t pick = rows.size();
      rows.push_back(static_cast<uint32_t>(hash % shape.rows[pick] + shape.offsets[pick]));
    }
  }
  return rows;
}

// For each token and stream s, with v the value:
//
//   x = key_s . query_s / sqrt(width);  g_s = v * sigmoid(sign(x) * sqrt(max(|x|, 1e-6)))
//   out_s = g_s + silu(convolution of the norms of g_s)
//
// The convolution sees every shape.size-th token.

namespace {

constexpr float kLeast = 1e-6f;

float GateOf(std::span<const float> key, std::span<const float> query) {
  const float product = std::inner_product(key.begin(), key.end(), query.begin(), 0.0f);
  const float x = product / std::sqrt(static_cast<float>(key.size()));
  if (x == 0) return RecurrentSigmoid(0);
  return RecurrentSigmoid(std::copysign(std::sqrt(std::max(std::abs(x), kLeast)), x));
}

// The weighted RMS norm of a stream, whose first channel is `first`.
void NormStream(const NgramConstants& constants, size_t first, std::span<const float> x,
                std::span<float> y) {
  double squares = 0;
  for (const float value : x) squares += double{value} * double{value};
  const auto mean = static_cast<float>(squares / static_cast<double>(x.size()));
  const float factor = 1 / std::sqrt(mean + constants.eps);
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * factor * constants.norm[first + i];
}

}  // namespace

void StepNgrams(const NgramShape& shape, const NgramConstants& constants, const NgramToken& token,
                RecurrentState& state, std::span<float> out) {
  const size_t width = token.value.size(), channels = shape.channels;
  std::vector<float> normed(channels);
  for (size_t first = 0; first < channels; first += width) {
    const float gate =
        GateOf(token.keys.subspan(first, width), token.queries.subspan(first, width));
    const std::span<float> own = out.subspan(first, width);
    for (size_t i = 0; i < width; ++i) own[i] = token.value[i] * gate;
    NormStream(constants, first, own, std::span(normed).subspan(first, width));
  }
  const size_t before = shape.kernel - 1;
  for (size_t channel = 0; channel < channels; ++channel) {
    const float* taps = constants.kernel.data() + channel * shape.kernel;
    float sum = 0;
    for (size_t tap = 0; tap < before; ++tap)
      sum += state.window[tap * shape.size * channels + channel] * taps[tap];
    sum += normed[channel] * taps[before];
    out[channel] += RecurrentSilu(sum);
  }
  ++state.length;
  if (before == 0) return;
  const auto step = static_cast<std::ptrdiff_t>(channels);
  std::copy(state.window.begin() + step, state.window.end(), state.window.begin());
  std::copy(normed.begin(), normed.end(), state.window.end() - step);
}

}  // namespace moepack::runtime
