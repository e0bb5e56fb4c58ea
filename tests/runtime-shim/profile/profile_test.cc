#include "runtime-shim/profile/profile.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/libshard/stats/sample.h"
#include "tests/runtime-shim/routed_session.h"

namespace moepack::runtime {
namespace {

constexpr uint32_t kVocabulary = 32;

// The next token is always the next number; token t uses experts t % 4 and (t + 1) % 4.
std::vector<float> Successor(uint32_t token) {
  std::vector<float> logits(kVocabulary, 0);
  logits[(token + 1) % kVocabulary] = 5;
  return logits;
}
Selection TwoOfFour(uint32_t token) { return {{token % 4, (token + 1) % 4}, {0.75f, 0.25f}}; }

class Profile : public ::testing::Test {
 protected:
  Profile() {
    ModelIdentity model = SampleModel();
    model.layers = {{0, 4, 2}};
    collector_ = std::make_unique<StatisticsCollector>(model, std::nullopt);
    collector_->StartSession("s", "", "fake", "f32");
  }
  Status Run(uint32_t tokens, const ProfileOptions& options) {
    std::vector<uint32_t> ids(tokens);
    std::iota(ids.begin(), ids.end(), 0u);
    RoutedSession session(Successor, TwoOfFour, options.context + options.generate,
                          collector_.get());
    return ProfileTokens(ids, options, session, *collector_);
  }
  const PhaseTally& Tally(Phase phase) const {
    return collector_->statistics().sessions[0].phases[static_cast<size_t>(phase)];
  }
  std::unique_ptr<StatisticsCollector> collector_;
};

TEST_F(Profile, EveryWindowHasOneSink) {
  ProfileOptions options;
  options.context = 4;
  options.chunk = 3;
  ASSERT_TRUE(Run(10, options));
  EXPECT_EQ(Tally(Phase::kPrefill).sinks, 3u);
  EXPECT_EQ(Tally(Phase::kPrefill).tokens, 7u);
  // Tokens 1, 2, 3, 5, 6, 7 and 9 are counted: 1, 5 and 9 put expert 1 first.
  EXPECT_EQ(Tally(Phase::kPrefill).layers[0][1].count, 3u);
  EXPECT_DOUBLE_EQ(Tally(Phase::kPrefill).layers[0][1].gate_mass, 2.25);
  EXPECT_EQ(Tally(Phase::kDecode).tokens, 0u);
}

TEST_F(Profile, DecodingFollowsTheLikeliestToken) {
  ProfileOptions options;
  options.context = 4;
  options.generate = 3;
  uint64_t steps = 0;
  options.advance = [&](uint64_t tokens) { steps += tokens; };
  ASSERT_TRUE(Run(4, options));
  EXPECT_EQ(steps, 7u);
  EXPECT_EQ(Tally(Phase::kDecode).tokens, 3u);  // 4, 5, 6
  EXPECT_EQ(Tally(Phase::kDecode).layers[0][0].count, 1u);
  EXPECT_EQ(Tally(Phase::kDecode).layers[0][1].count, 2u);
}

TEST_F(Profile, DecodingStopsAtTheEnd) {
  ProfileOptions options;
  options.context = 8;
  options.generate = 6;
  options.is_end = [](uint32_t id) { return id == 6; };
  ASSERT_TRUE(Run(4, options));
  EXPECT_EQ(Tally(Phase::kDecode).tokens, 2u);
}

}  // namespace
}  // namespace moepack::runtime
