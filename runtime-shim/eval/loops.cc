#include "runtime-shim/eval/loops.h"

#include <algorithm>
#include <vector>

namespace moepack::runtime {
namespace {

// Finds the longest common suffix of any two prefixes by dynamic programming, one row at a time. It
// takes quadratic time and linear memory, which is cheap for a few hundred tokens.
uint32_t LongestRepeat(std::span<const uint32_t> ids) {
  std::vector<uint32_t> row(ids.size() + 1), above(ids.size() + 1);
  uint32_t longest = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    // A run counts only if it comes again later, so j starts after i.
    for (size_t j = i + 1; j < ids.size(); ++j) {
      row[j + 1] = ids[i] == ids[j] ? above[j] + 1 : 0;
      longest = std::max(longest, row[j + 1]);
    }
    row.swap(above);
  }
  return longest;
}

bool EndsInPeriod(std::span<const uint32_t> ids, size_t period) {
  if (ids.size() < period * kLoopRepeats) return false;
  const auto tail = ids.last(period * kLoopRepeats);
  // A tail that equals itself shifted by the period repeats with that period.
  return std::equal(tail.begin() + static_cast<ptrdiff_t>(period), tail.end(), tail.begin());
}

}  // namespace

LoopResult FindLoop(std::span<const uint32_t> generated) {
  LoopResult result;
  result.tokens = static_cast<uint32_t>(generated.size());
  // A text that loops still does so at its end; its beginning may take up the prompt.
  const auto half = generated.last(generated.size() - generated.size() / 2);
  if (!half.empty()) {
    result.repeated_share =
        static_cast<double>(LongestRepeat(half)) / static_cast<double>(half.size());
  }
  for (uint32_t period = 1; period <= kLongestPeriod && result.period == 0; ++period) {
    if (EndsInPeriod(generated, period)) result.period = period;
  }
  return result;
}

}  // namespace moepack::runtime
