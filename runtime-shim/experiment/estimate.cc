#include "runtime-shim/experiment/estimate.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace moepack::runtime {
namespace {

// P(|T| <= t) for Student's t with an integer number of degrees of freedom: the finite series of
// Abramowitz and Stegun, 26.7.3 and 26.7.4.
double ShareWithin(double t, uint64_t freedom) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1, sum = freedom == 1 ? 0 : term;
  for (uint64_t i = odd ? 3 : 2; i + 2 <= freedom; i += 2) {
    term *= cosine * cosine * static_cast<double>(i - 1) / static_cast<double>(i);
    sum += term;
  }
  if (!odd) return sine * sum;
  return 2 / std::numbers::pi * (angle + sine * sum);
}

// Beyond this many degrees of freedom the quantiles agree to three digits.
constexpr uint64_t kMostFreedom = 10000;

}  // namespace

Estimate EstimateMean(std::span<const Sample> samples) {
  double tokens = 0, sum = 0;
  for (const Sample& sample : samples) {
    tokens += static_cast<double>(sample.tokens);
    sum += static_cast<double>(sample.tokens) * sample.value;
  }
  if (tokens == 0) return {};
  Estimate estimate;
  estimate.mean = sum / tokens;
  if (samples.size() < 2) return estimate;
  double squares = 0;
  for (const Sample& sample : samples) {
    // Cochran 1977, chapter 6: the variance of a ratio estimate from the residuals of the totals.
    const double off = static_cast<double>(sample.tokens) * (sample.value - estimate.mean);
    squares += off * off;
  }
  const auto count = static_cast<double>(samples.size());
  // The error of a ratio estimate, with whole sessions as samples: tokens of one session are not
  // independent.
  estimate.error = std::sqrt(count / (count - 1) * squares) / tokens;
  return estimate;
}

double IntervalFactor(uint32_t looks, uint64_t sessions) {
  if (sessions < 2) return std::numeric_limits<double>::infinity();
  const uint64_t freedom = sessions - 1 < kMostFreedom ? sessions - 1 : kMostFreedom;
  // The chance of an error is shared equally between the looks (Bonferroni).
  const double wanted = 1 - 0.05 / looks;
  double low = 0, high = 1;
  while (ShareWithin(high, freedom) < wanted) high *= 2;
  // 60 halvings use up the 53 bits of a double.
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (ShareWithin(middle, freedom) < wanted ? low : high) = middle;
  }
  return high;
}

}  // namespace moepack::runtime
