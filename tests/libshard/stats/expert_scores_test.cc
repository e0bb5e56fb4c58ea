#include "libshard/stats/expert_scores.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(CheckRouters, StatisticsOfOtherRoutersAreRefused) {
  const auto other = CheckRouters("s.json", "aa", "model", "bb");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kMismatch);
  EXPECT_EQ(other.error().message, "s.json: router digest: expected bb, found aa");
  EXPECT_EQ(other.error().hint, "statistics belong to one model: profile this one");
}

TEST(CheckRouters, WarnsIfTheRoutersCannotBeChecked) {
  EXPECT_EQ(CheckRouters("s.json", "aa", "model", "").value(),
            "s.json: whether it was measured on model was not checked, because its routers cannot "
            "be read here");
  EXPECT_EQ(CheckRouters("s.json", "aa", "model", "aa").value(), "");
  EXPECT_EQ(CheckRouters("s.json", "", "model", "bb").value(), "") << "the format has no digest";
}

}  // namespace
}  // namespace moepack
