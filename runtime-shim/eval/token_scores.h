// Log-probabilities and divergences of one row of logits, in double.
#pragma once

#include <cstdint>
#include <span>

namespace moepack::runtime {

// The logits of one token [vocabulary], normalized. Borrows the logits, which are finite.
class TokenScores {
 public:
  explicit TokenScores(std::span<const float> logits);

  double LogProbability(uint32_t id) const { return (double{logits_[id]} - largest_) - log_sum_; }
  // The id of the largest logit; the lowest if several are equal.
  uint32_t best() const { return best_; }
  // Returns KL(this || other) in nats, never below 0 (rounding could make it so).
  double DivergenceTo(const TokenScores& other) const;

 private:
  std::span<const float> logits_;
  uint32_t best_ = 0;
  double largest_ = 0;
  double log_sum_ = 0;  // of exp(logit - largest)
};

}  // namespace moepack::runtime
