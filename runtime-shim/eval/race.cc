#include "runtime-shim/eval/race.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

namespace moepack::runtime {

RaceResult RunRace(std::span<const std::vector<double>> log_probabilities, uint32_t tokens) {
  assert(!log_probabilities.empty());
  RaceResult result;
  const size_t raced = std::min<size_t>(tokens, log_probabilities.front().size());
  result.tokens = static_cast<uint32_t>(raced);
  std::vector<double> sums;
  for (const std::vector<double>& group : log_probabilities) {
    sums.push_back(
        std::accumulate(group.begin(), group.begin() + static_cast<ptrdiff_t>(raced), 0.0));
  }
  // The first of equal groups wins, so that the answer does not depend on anything else.
  const auto best = std::max_element(sums.begin(), sums.end());
  result.winner = static_cast<uint32_t>(best - sums.begin());
  if (sums.size() < 2 || raced == 0) return result;
  double second = -std::numeric_limits<double>::infinity();
  for (size_t group = 0; group < sums.size(); ++group) {
    if (group != result.winner) second = std::max(second, sums[group]);
  }
  result.margin = (*best - second) / static_cast<double>(raced);
  return result;
}

}  // namespace moepack::runtime
