#include "runtime-shim/eval/token_scores.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace moepack::runtime {

TokenScores::TokenScores(std::span<const float> logits) : logits_(logits) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  best_ = static_cast<uint32_t>(largest - logits.begin());
  largest_ = *largest;
  double sum = 0;
  // Relative to the largest logit, so that exp does not overflow.
  for (const float logit : logits) sum += std::exp(double{logit} - largest_);
  log_sum_ = std::log(sum);
}

double TokenScores::DivergenceTo(const TokenScores& other) const {
  assert(logits_.size() == other.logits_.size());
  double sum = 0;
  for (uint32_t id = 0; id < logits_.size(); ++id) {
    const double log_probability = LogProbability(id);
    sum += std::exp(log_probability) * (log_probability - other.LogProbability(id));
  }
  // A divergence is never negative except through rounding.
  return std::max(sum, 0.0);
}

}  // namespace moepack::runtime
