#include "libshard/base/even_shares.h"

#include <gmock/gmock.h>

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EvenShares, GiveTheLargestPieceToTheTaskWithTheLeast) {
  EXPECT_THAT(EvenShares({5, 100, 40, 60}, 2), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(EvenShares({5, 100, 40, 60}, 1), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(EvenShares({}, 3), IsEmpty());
}

TEST(EvenShares, TakeTurnsWithPiecesThatCostTheSame) {
  EXPECT_THAT(EvenShares({7, 7, 7, 7}, 2), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(EvenShares({0, 0, 0, 0}, 3), ElementsAre(0, 1, 2, 0));
}

}  // namespace
}  // namespace moepack
