// How often caches can be expected to hit if only the popularity of experts is known, not their
// order.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/stats/expert_scores.h"

namespace moepack {

// The share of a layer's score that falls on experts in a cache, weighted by the layers' scores.
struct ExpectedHits {
  double fixed = 0;  // the best experts of each layer: the hits of a static cache on these texts
  // The independent reference model: every token chooses by these shares and nothing else. Real
  // tokens resemble those before them, so a real LRU cache hits more often.
  double lru = 0;
};

// `slots` is by index of the layer. With counts, `fixed` is the hit rate of the sum of all
// sessions; with another basis it is that share of the gates. 0 if nothing was counted.
//
// An LRU cache of n slots holds what the last T tokens chose, where T is such that this is n
// experts (Che, Tung and Wang, 2002). With q the probability that a token chooses an expert, the
// expert is held with probability 1 - (1 - q)^T. If the number of tokens is not known, q is the
// expert's share x top-k.
ExpectedHits ExpectHits(const ExpertScores& scores, const std::vector<uint32_t>& slots);

}  // namespace moepack
