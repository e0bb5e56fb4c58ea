#include "libshard/strategies/session_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "libshard/strategies/split_mix.h"
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

SessionGram GramOf(const ExpertScores& scores) {
  std::vector<size_t> sessions;
  for (size_t i = 0; i < scores.sessions.size(); ++i) sessions.push_back(i);
  return SessionGram::Of(SessionShares(scores, sessions)).value();
}

TEST(ClusterSessions, FindsPlantedClustersAndNumbersThemByTheirFirstSession) {
  const ExpertScores scores = Planted{.kinds = 3, .sessions = 30}.Make();
  const auto clusters = ClusterSessions(GramOf(scores), 3, 8, 0).value();
  ASSERT_FALSE(clusters.empty());
  for (uint32_t session = 0; session < 30; ++session) EXPECT_EQ(clusters[0][session], session % 3);
}

TEST(ClusterSessions, ReturnsDistinctGroupingsAndTheSameOnesForASeed) {
  const ExpertScores scores = Planted{.kinds = 2, .sessions = 20}.Make();
  const SessionGram gram = GramOf(scores);
  const auto clusters = ClusterSessions(gram, 4, 12, 5).value();
  for (size_t i = 0; i < clusters.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(clusters[i], clusters[j]);
  }
  EXPECT_EQ(ClusterSessions(gram, 4, 12, 5).value(), clusters);
}

TEST(ClusterSessions, LeavesNoClusterEmpty) {
  const ExpertScores scores = ScoresOf({{0, 2, 1}}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}});
  const auto clusters = ClusterSessions(GramOf(scores), 4, 3, 0).value();
  EXPECT_THAT(clusters[0], testing::UnorderedElementsAre(0, 1, 2, 3));
}

TEST(BalancedGroups, NoGroupGetsManyMoreThanItsPart) {
  // All prefer group 0, the first most of all.
  std::vector<double> values;
  for (int session = 0; session < 8; ++session) {
    values.push_back(20 - session);
    values.push_back(1);
  }
  EXPECT_EQ(MostSessions(8, 2), 6u);
  EXPECT_EQ(BalancedGroups(values, 2, 6), (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(BalancedGroups(values, 2, 8), (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 0, 1}))
      << "no group stays empty";
}

TEST(BalancedGroups, SwapsSessionsWhereThatHelps) {
  // Session 0 chooses first and takes the place that session 1 needs more together with 2.
  const std::vector<double> values = {9, 5, 8, 0, 7, 6};
  EXPECT_EQ(BalancedGroups(values, 2, 2), (std::vector<uint32_t>{0, 0, 1}));
}

// What all sessions have of their groups.
double SumOf(const std::vector<double>& values, const std::vector<uint32_t>& groups, size_t count) {
  double sum = 0;
  for (size_t session = 0; session < groups.size(); ++session)
    sum += values[session * count + groups[session]];
  return sum;
}

// Each prefers one of three groups, and most of them the first, which becomes full.
std::vector<double> ValuesOf(size_t sessions) {
  SplitMix64 random(7);
  std::vector<double> values;
  for (size_t session = 0; session < sessions; ++session) {
    for (size_t group = 0; group < 3; ++group)
      values.push_back((group == 0 ? 0.4 : 0.0) + static_cast<double>(random.Below(1000)) / 1000);
  }
  return values;
}

TEST(BalancedGroups, ManySessionsAreSwappedByGroupsAsWellAsByPairs) {
  const std::vector<double> all = ValuesOf(kMostComparedSessions + 1);
  const std::vector<double> pairs(all.begin(), all.end() - 3);  // one session fewer
  const size_t most = MostSessions(kMostComparedSessions, 3);
  const double by_pairs = SumOf(pairs, BalancedGroups(pairs, 3, most), 3);
  const double by_groups = SumOf(all, BalancedGroups(all, 3, most), 3);
  EXPECT_GE(by_groups, by_pairs);
  EXPECT_LE(by_groups, by_pairs * 1.002);
}

// Time that grew with the square of the sessions was minutes here.
TEST(BalancedGroups, AHundredThousandSessionsTakeSeconds) {
  const std::vector<double> values = ValuesOf(100000);
  const size_t most = MostSessions(100000, 3);
  const std::vector<uint32_t> groups = BalancedGroups(values, 3, most);
  for (uint32_t group = 0; group < 3; ++group)
    EXPECT_LE(static_cast<size_t>(std::count(groups.begin(), groups.end(), group)), most);
}

}  // namespace

}  // namespace moepack
