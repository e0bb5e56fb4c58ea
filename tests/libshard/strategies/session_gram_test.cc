#include "libshard/strategies/session_gram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

// The same computed naively in doubles.
std::vector<double> Cosines(const SessionShares& shares) {
  const size_t sessions = shares.session_count();
  std::vector<std::vector<double>> rows(sessions, std::vector<double>(shares.width()));
  for (size_t s = 0; s < sessions; ++s) {
    for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
      const auto scores = shares.Scores(s, layer);
      for (size_t id = 0; id < scores.size(); ++id)
        rows[s][shares.offset(layer) + id] = std::sqrt(scores[id] * shares.PerScore(s, layer));
    }
  }
  for (size_t i = 0; i < shares.width(); ++i) {
    double mean = 0;
    for (const auto& row : rows) mean += row[i] / static_cast<double>(sessions);
    for (auto& row : rows) row[i] -= mean;
  }
  std::vector<double> cosines;
  const auto product = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t i = 0; i < shares.width(); ++i) sum += rows[a][i] * rows[b][i];
    return sum;
  };
  for (size_t a = 0; a < sessions; ++a) {
    for (size_t b = 0; b < sessions; ++b)
      cosines.push_back(product(a, b) / std::sqrt(product(a, a) * product(b, b)));
  }
  return cosines;
}

TEST(SessionGram, HoldsTheCosinesOfCentredSessions) {
  const ExpertScores scores = Planted{.layers = 5, .experts = 50, .sessions = 37}.Make();
  std::vector<size_t> sessions;
  for (size_t i = 0; i < scores.sessions.size(); ++i) sessions.push_back(i);
  const SessionShares shares(scores, sessions);
  const SessionGram gram = SessionGram::Of(shares).value();
  ASSERT_EQ(gram.size(), 37u);
  const std::vector<double> cosines = Cosines(shares);
  constexpr double kUnit = double{kGramUnit} * kGramUnit;
  for (size_t a = 0; a < gram.size(); ++a) {
    for (size_t b = 0; b < gram.size(); ++b) {
      EXPECT_EQ(gram.At(a, b), gram.At(b, a));
      EXPECT_NEAR(gram.At(a, b) / kUnit, cosines[a * gram.size() + b], 1e-3) << a << " " << b;
    }
  }
}

TEST(SessionGram, IsZeroForASessionEqualToTheMean) {
  const ExpertScores scores = ScoresOf({{0, 2, 1}}, {{1, 3}, {2, 6}});
  const SessionGram gram = SessionGram::Of(SessionShares(scores, {0, 1})).value();
  EXPECT_EQ(gram.At(0, 0), 0);
  EXPECT_EQ(gram.At(0, 1), 0);
}

}  // namespace
}  // namespace moepack
