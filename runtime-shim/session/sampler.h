// Picks the next token from logits.
#pragma once

#include <cstdint>
#include <span>

#include "libshard/base/result.h"
#include "libshard/strategies/split_mix.h"

namespace moepack::runtime {

// Filters use the model's own distribution, in this order: they keep the top_k most likely tokens;
// of these, the fewest whose probabilities add up to top_p; and of these, the ones with at least
// min_p times the probability of the most likely token. The temperature reshapes the remaining
// distribution, which always has at least one token.
struct Sampling {
  float temperature = 0;  // 0: greedy, and the other options are ignored
  uint32_t top_k = 0;     // 0: all
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 0;
};
// Returns kInvalidArgument for a temperature that is negative or not finite, top_p outside (0, 1],
// and min_p outside [0, 1].
Status CheckSampling(const Sampling& sampling);

struct NextToken {
  uint32_t id = 0;
  double logprob = 0;  // natural logarithm, in the model's own distribution: no filter, no
                       // temperature
};

// Returns the token with the largest logit; the lowest id wins a tie. REQUIRES: at least one logit,
// no NaN.
uint32_t GreedyToken(std::span<const float> logits);
// Returns ln softmax(logits)[id], summed in double precision.
double LogProbability(std::span<const float> logits, uint32_t id);

// Gives the same numbers on every machine.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : bits_(seed) {}
  uint64_t Next() { return bits_.Next(); }
  double Uniform();  // [0, 1), 53 bits

 private:
  SplitMix64 bits_;
};

// Draws one number per token that is not picked greedily, so equal logits and an equal seed give
// equal tokens, as far as the machines' exp() agree.
class Sampler {
 public:
  // REQUIRES: CheckSampling(sampling).
  explicit Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {}
  // Picks a token. REQUIRES: at least one logit, no NaN.
  NextToken Pick(std::span<const float> logits);

 private:
  Sampling sampling_;
  RandomBits random_;
};

}  // namespace moepack::runtime
