#include "libshard/strategies/session_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

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

}  // namespace
}  // namespace moepack
