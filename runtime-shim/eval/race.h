// A race between groups: all score the first tokens of a session, and the one that finds them
// likeliest wins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moepack::runtime {

struct RaceResult {
  uint32_t winner = 0;  // the lowest if several are equal
  uint32_t tokens = 0;  // how many tokens were scored
  double margin = 0;    // the lead over the second, in nats per token; 0 with one group
};

// Runs a race over the first `tokens` tokens. `log_probabilities` has one list per group with the
// log-probability of each scored token, all of the same length. REQUIRES: at least one group.
RaceResult RunRace(std::span<const std::vector<double>> log_probabilities, uint32_t tokens);

}  // namespace moepack::runtime
