#include "runtime-shim/eval/yardstick.h"

#include <cmath>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

using Mark = YardstickMark;

// The figures are from the READMEs of llama.cpp's tools/quantize and tools/perplexity.
constexpr Mark kMarks[] = {{"a Q8_0", 0.0014},  {"a Q6_K", 0.0055},  {"a Q5_K_M", 0.011},
                           {"a Q4_K_M", 0.028}, {"a Q3_K_M", 0.084}, {"an IQ2_M", 0.33},
                           {"an IQ1_M", 1.39}};
// How far below the first mark and above the last one they still describe a divergence. Nothing
// that people use is worse than the last, so a little more is already another matter.
constexpr double kBelow = 2, kAbove = 1.25;

}  // namespace

std::span<const YardstickMark> YardstickMarks() { return kMarks; }

std::string Yardstick(double mean_divergence) {
  const Mark& first = *std::begin(kMarks);
  const Mark& last = *(std::end(kMarks) - 1);
  if (mean_divergence * kBelow < first.divergence) return Cat("less than ", first.name);
  if (mean_divergence > last.divergence * kAbove) return Cat(kWorseThan, last.name);
  const Mark* nearest = &first;
  const auto distance = [&](const Mark& mark) {
    // By ratio, since the marks span three orders of magnitude.
    return std::abs(std::log(mean_divergence / mark.divergence));
  };
  for (const Mark& mark : kMarks) {
    if (distance(mark) < distance(*nearest)) nearest = &mark;
  }
  return std::string("about ") + nearest->name;
}

}  // namespace moepack::runtime
