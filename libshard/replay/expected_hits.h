// What caches can be expected to hit where only the popularity of experts is known, and not their
// order.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/stats/expert_scores.h"

namespace moepack {

// The share of the score of a layer that experts of a cache have, weighed by the layers' scores.
struct ExpectedHits {
  double fixed = 0;  // the best experts of each layer: what a static cache hits on these texts
  // The independent reference model: as if every token chose by these shares and nothing else. Real
  // tokens resemble those before them, so a real LRU cache hits more.
  double lru = 0;
};

// `slots` by index of the layer. With counts, `fixed` is the hit rate of the sum of all sessions;
// with another basis it is that share of the gates. 0 where nothing was counted.
//
// An LRU cache of n slots holds what the last T tokens chose, where T is such that this is n
// experts (Che, Tung and Wang, 2002). With q the probability that a token chooses an expert, the
// expert is held with probability 1 - (1 - q)^T. Where tokens are not known, q is the expert's
// share x top-k.
ExpectedHits ExpectHits(const ExpertScores& scores, const std::vector<uint32_t>& slots);

}  // namespace moepack
