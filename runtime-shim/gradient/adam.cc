#include "runtime-shim/gradient/adam.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/pieces.h"

namespace moepack::runtime {
namespace {

// The usual 0.999 for the second moment would average over more steps than a refit has.
constexpr double kFirstMoment = 0.9, kSecondMoment = 0.99, kStepFloor = 1e-9;
// Values that a thread moves at a time.
constexpr size_t kValuesOfPiece = 1 << 16;

// Sums that overflowed must not end up in the values, and squares must fit into floats.
double Tamed(double slope) {
  constexpr double kMost = 1e18;
  return std::isfinite(slope) ? std::clamp(slope, -kMost, kMost) : 0;
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
  const double bias_first = 1 - std::pow(kFirstMoment, steps_),
               bias_second = 1 - std::pow(kSecondMoment, steps_);
  ForPieces(values.size(), kValuesOfPiece, jobs_, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const double slope = Tamed(gradient[i]);
      const double first = kFirstMoment * first_[i] + (1 - kFirstMoment) * slope;
      const double second = kSecondMoment * second_[i] + (1 - kSecondMoment) * slope * slope;
      first_[i] = static_cast<float>(first);
      second_[i] = static_cast<float>(second);
      const double size = std::sqrt(second / bias_second) + kStepFloor;
      values[i] = static_cast<float>(values[i] - rate * (first / bias_first) / size);
    }
  });
}

}  // namespace moepack::runtime
