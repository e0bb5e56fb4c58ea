#include "runtime-shim/eval/race_groups.h"

#include <gmock/gmock.h>

#include "tests/runtime-shim/tiny_node.h"

namespace moepack::runtime {
namespace {

class RaceOfGroups : public TinyDistribution {
 protected:
  void SetUp() override {
    node_ = Open(std::nullopt);
    ASSERT_NE(node_, nullptr);
    for (uint32_t group = 0; group < 3; ++group)
      groups_.push_back(EligibleExperts(node_->weights(), group, true));
  }
  Error Refused(std::span<const LayerExperts> groups, const std::vector<uint32_t>& tokens) {
    const auto race = RaceGroups(node_->model(), groups, tokens, 8);
    EXPECT_FALSE(race);
    return race ? Error{Code::kIo, "raced"} : race.error();
  }

  std::unique_ptr<Node> node_;
  std::vector<LayerExperts> groups_;
};

TEST_F(RaceOfGroups, ScoresTheFirstTokensWithEveryGroup) {
  const auto tokens = (*node_->tokenizer())->Encode("static int main(int argc, char** argv) {", {});
  ASSERT_TRUE(tokens);
  ASSERT_GT(tokens->size(), 9u);
  const auto all = RaceGroups(node_->model(), groups_, *tokens, 8);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->tokens, 8u);
  EXPECT_GT(all->margin, 0);
  // Neither the order of the groups nor the tokens after the first ones matter.
  std::swap(groups_[0], groups_[all->winner]);
  const auto again = RaceGroups(node_->model(), groups_, std::span(*tokens).first(9), 8);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->winner, 0u);
  EXPECT_EQ(again->margin, all->margin);
}

TEST_F(RaceOfGroups, RefusesInvalidRaces) {
  EXPECT_EQ(Refused(groups_, {5}).message, "race: expected at least 2 tokens, found 1");
  EXPECT_EQ(Refused({}, {5, 6}).message, "race: expected groups, found none");
  EXPECT_EQ(Refused(groups_, {5, 5000}).message,
            "race: token: expected an id below 1024, found 5000");
}

}  // namespace
}  // namespace moepack::runtime
