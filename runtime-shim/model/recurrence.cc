#include "runtime-shim/model/recurrence.h"

#include <algorithm>

namespace moepack::runtime {

void RecurrentState::Clear(const RecurrentShape& shape) {
  window.assign(size_t{shape.kernel - 1} * shape.channels, 0.0f);
  memory.assign(shape.memory, 0.0f);
  length = 0;
}

std::vector<float> Convolve(const RecurrentShape& shape, const Convolution& convolution,
                            std::span<const float> token, RecurrentState& state) {
  const size_t channels = shape.channels, before = shape.kernel - 1;
  std::vector<float> out(channels);
  for (size_t channel = 0; channel < channels; ++channel) {
    const std::span<const float> taps =
        convolution.kernel.subspan(channel * shape.kernel, shape.kernel);
    float sum = 0;
    for (size_t tap = 0; tap < before; ++tap)
      sum += state.window[tap * channels + channel] * taps[tap];
    sum += token[channel] * taps[before];
    if (!convolution.bias.empty()) sum += convolution.bias[channel];
    out[channel] = RecurrentSilu(sum);
  }
  if (before == 0) return out;
  std::copy(state.window.begin() + static_cast<std::ptrdiff_t>(channels), state.window.end(),
            state.window.begin());
  std::copy(token.begin(), token.end(), state.window.end() - static_cast<std::ptrdiff_t>(channels));
  return out;
}

}  // namespace moepack::runtime
