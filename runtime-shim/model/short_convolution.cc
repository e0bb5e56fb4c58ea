#include "runtime-shim/model/short_convolution.h"

#include <algorithm>

namespace moepack::runtime {

// For each token, with b, c and x the thirds of its projection:
//
//   out = c * convolution(b * x of the last `kernel` tokens)
void StepConvolution(const ConvolutionShape& shape, std::span<const float> kernel,
                     std::span<const float> projected, RecurrentState& state,
                     std::span<float> out) {
  const size_t width = shape.width, before = shape.kernel - 1;
  std::vector<float> input(width);
  for (size_t channel = 0; channel < width; ++channel)
    input[channel] = projected[channel] * projected[2 * width + channel];
  for (size_t channel = 0; channel < width; ++channel) {
    const std::span<const float> taps = kernel.subspan(channel * shape.kernel, shape.kernel);
    float sum = 0;
    for (size_t tap = 0; tap < before; ++tap)
      sum += state.window[tap * width + channel] * taps[tap];
    sum += input[channel] * taps[before];
    out[channel] = projected[width + channel] * sum;
  }
  ++state.length;
  if (before == 0) return;
  const auto step = static_cast<std::ptrdiff_t>(width);
  std::copy(state.window.begin() + step, state.window.end(), state.window.begin());
  std::copy(input.begin(), input.end(), state.window.end() - step);
}

}  // namespace moepack::runtime
