// A race: all groups score the first tokens of a session, and the group that finds them likeliest
// wins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moepack::runtime {

struct RaceResult {
  uint32_t winner = 0;  // the lowest of equals
  uint32_t tokens = 0;  // that were raced over
  double margin = 0;    // before the second, nats per token; 0 with one runner
};

// `log_probabilities`: per group, of each scored token; all of the same length. The first `tokens`
// count. REQUIRES: at least one group.
RaceResult RunRace(std::span<const std::vector<double>> log_probabilities, uint32_t tokens);

}  // namespace moepack::runtime
