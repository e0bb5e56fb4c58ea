#include "runtime-shim/gradient/adam.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"

namespace moepack::runtime {
namespace {

// The usual 0.999 for the second moment would average over more steps than a refit has.
constexpr float kFirstMoment = 0.9f, kSecondMoment = 0.99f, kStepFloor = 1e-9f;
// Values that a thread moves at a time.
constexpr size_t kValuesOfPiece = 1 << 16;

// Sums that overflowed must not end up in the values, and squares must fit into floats. Written so
// that compilers use vectors.
float Tamed(double slope) {
  constexpr double kMost = 1e18;
  const double above = slope > -kMost ? slope : -kMost;
  const double between = above < kMost ? above : kMost;
  return slope == slope ? static_cast<float>(between) : 0.0f;
}

}  // namespace

double RootMeanSquare(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
}

Adam::Adam(size_t count, size_t jobs) : first_(count, 0), second_(count, 0), jobs_(jobs) {}

void Adam::Step(double rate, std::span<const double> gradient, std::span<float> values) {
  ++steps_;
  // The means start from 0, so that they are too small at first.
  const auto rate_of_first = static_cast<float>(rate / (1 - std::pow(kFirstMoment, steps_)));
  const auto of_second = static_cast<float>(1 / (1 - std::pow(kSecondMoment, steps_)));
  ForPieces(values.size(), kValuesOfPiece, jobs_, [&](size_t begin, size_t end) {
    const double* const slopes = gradient.data();
    float* const firsts = first_.data();
    float* const seconds = second_.data();
    float* const moved = values.data();
    for (size_t i = begin; i < end; ++i) {
      const float slope = Tamed(slopes[i]);
      const float first = kFirstMoment * firsts[i] + (1 - kFirstMoment) * slope;
      const float second = kSecondMoment * seconds[i] + (1 - kSecondMoment) * slope * slope;
      firsts[i] = first;
      seconds[i] = second;
      moved[i] -= rate_of_first * first / (std::sqrt(second * of_second) + kStepFloor);
    }
  });
}

std::vector<uint32_t> DrawBatch(size_t rows, size_t size, uint32_t step) {
  std::vector<uint32_t> batch(std::min(rows, size));
  std::iota(batch.begin(), batch.end(), 0u);
  if (rows <= size) return batch;
  SplitMix64 random(step);
  for (uint32_t& row : batch) row = static_cast<uint32_t>(random.Below(rows));
  return batch;
}

}  // namespace moepack::runtime
