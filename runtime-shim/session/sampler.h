// Picks the next token from logits.
#pragma once

#include <cstdint>
#include <span>

#include "libshard/base/result.h"

namespace moepack::runtime {

// Filters look at the model's own distribution, in this order: the top_k most likely tokens; of
// them the fewest whose probabilities reach top_p of all of it; of these, those with at least min_p
// times the probability of the most likely one. The temperature reshapes what is left. At least one
// token always is.
struct Sampling {
  float temperature = 0;  // 0: greedy, and the rest is not looked at
  uint32_t top_k = 0;     // 0: all
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 0;
};
// kInvalidArgument: temperature below 0 or not finite, top_p outside (0, 1], min_p outside [0, 1].
Status CheckSampling(const Sampling& sampling);

struct NextToken {
  uint32_t id = 0;
  double logprob = 0;  // natural logarithm, in the model's own distribution: no filter, no
                       // temperature
};

// The largest logit; the lowest id wins a tie. REQUIRES: some logits, no NaN.
uint32_t GreedyToken(std::span<const float> logits);
// ln softmax(logits)[id], summed in double precision.
double LogProbability(std::span<const float> logits, uint32_t id);

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): 64 bits of
// state, the same numbers on every machine.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  double Uniform();  // [0, 1), 53 bits

 private:
  uint64_t state_;
};

// One number is drawn per token that is not picked greedily, so equal logits and an equal seed give
// equal tokens, as far as the machines' exp() agree.
class Sampler {
 public:
  // REQUIRES: CheckSampling(sampling).
  explicit Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {}
  // REQUIRES: some logits, no NaN.
  NextToken Pick(std::span<const float> logits);

 private:
  Sampling sampling_;
  RandomBits random_;
};

}  // namespace moepack::runtime
