#include "runtime-shim/eval/token_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace moepack::runtime {
namespace {

// Logits of a distribution.
std::vector<float> Logits(const std::vector<double>& probabilities, double shift = 0) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + shift));
  return logits;
}

TEST(TokenScores, ComputesLogProbabilitiesOfTheSoftmax) {
  const std::vector<float> logits = Logits({0.5, 0.25, 0.25}, 3);
  const TokenScores scores(logits);
  EXPECT_NEAR(scores.LogProbability(0), std::log(0.5), 1e-6);
  EXPECT_NEAR(scores.LogProbability(2), std::log(0.25), 1e-6);
  EXPECT_EQ(scores.best(), 0u);
}

TEST(TokenScores, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, -3e38f, 3e38f};
  const TokenScores scores(logits);
  EXPECT_NEAR(scores.LogProbability(0), std::log(0.5), 1e-6);
  EXPECT_EQ(scores.best(), 0u);
}

TEST(TokenScores, ComputesTheDivergenceByItsDefinition) {
  const std::vector<float> p = Logits({0.5, 0.25, 0.25}), q = Logits({0.25, 0.25, 0.5}, -7);
  // 0.5 ln 2 + 0.25 ln 1 + 0.25 ln (1/2) = 0.25 ln 2
  EXPECT_NEAR(TokenScores(p).DivergenceTo(TokenScores(q)), 0.25 * std::log(2), 1e-6);
  EXPECT_NEAR(TokenScores(q).DivergenceTo(TokenScores(p)), 0.25 * std::log(2), 1e-6);
  EXPECT_EQ(TokenScores(p).DivergenceTo(TokenScores(p)), 0);
}

TEST(TokenScores, DivergenceIsNotSymmetric) {
  const std::vector<float> p = Logits({0.75, 0.25}), q = Logits({0.5, 0.5});
  EXPECT_NEAR(TokenScores(p).DivergenceTo(TokenScores(q)),
              0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-6);
  EXPECT_NEAR(TokenScores(q).DivergenceTo(TokenScores(p)),
              0.5 * std::log(2.0 / 3) + 0.5 * std::log(2), 1e-6);
}

}  // namespace
}  // namespace moepack::runtime
