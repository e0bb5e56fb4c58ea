#include "runtime-shim/profile/profile.h"

#include <gtest/gtest.h>

#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/stats/statistics_file.h"
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
  Profile() { SetUpCollector(); }
  void SetUpCollector() {
    ModelIdentity model = SampleModel();
    model.layers = {{0, 4, 2}};
    collector_ = std::make_unique<StatisticsCollector>(model, std::nullopt);
  }
  // Runs texts of these numbers of tokens, on that many sessions.
  Status Run(const std::vector<uint32_t>& sizes, const ProfileOptions& options,
             size_t sessions = 1) {
    std::vector<uint32_t> ids(1000);
    std::iota(ids.begin(), ids.end(), 0u);
    std::vector<TokenSession> texts;
    for (const uint32_t size : sizes)
      texts.push_back({Cat("text ", texts.size()), "", {ids.begin(), ids.begin() + size}});
    std::vector<std::unique_ptr<Session>> opened;
    std::vector<Session*> slots;
    for (size_t slot = 0; slot < sessions; ++slot) {
      opened.push_back(std::make_unique<RoutedSession>(
          Successor, TwoOfFour, options.context + options.generate, &collector_->ObserverOf(slot)));
      slots.push_back(opened.back().get());
    }
    return ProfileTexts(texts, options, slots, *collector_);
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
  ASSERT_TRUE(Run({10}, options));
  EXPECT_EQ(Tally(Phase::kPrefill).sinks, 3u);
  EXPECT_EQ(Tally(Phase::kPrefill).tokens, 7u);
  // Tokens 1, 2, 3, 5, 6, 7 and 9 are counted: 1, 5 and 9 put expert 1 first.
  EXPECT_EQ(Tally(Phase::kPrefill).layers[0][1].count, 3u);
  EXPECT_DOUBLE_EQ(Tally(Phase::kPrefill).layers[0][1].gate_mass, 2.25);
  EXPECT_EQ(Tally(Phase::kDecode).tokens, 0u);
}

TEST_F(Profile, DecodesTheLikeliestToken) {
  ProfileOptions options;
  options.context = 4;
  options.generate = 3;
  uint64_t steps = 0;
  options.advance = [&](uint64_t tokens) { steps += tokens; };
  ASSERT_TRUE(Run({4}, options));
  EXPECT_EQ(steps, 7u);
  EXPECT_EQ(Tally(Phase::kDecode).tokens, 3u);  // 4, 5, 6
  EXPECT_EQ(Tally(Phase::kDecode).layers[0][0].count, 1u);
  EXPECT_EQ(Tally(Phase::kDecode).layers[0][1].count, 2u);
}

TEST_F(Profile, DecodingStopsAtAnEndToken) {
  ProfileOptions options;
  options.context = 8;
  options.generate = 6;
  options.is_end = [](uint32_t id) { return id == 6; };
  ASSERT_TRUE(Run({4}, options));
  EXPECT_EQ(Tally(Phase::kDecode).tokens, 2u);
}

// Sums of gates are floating-point numbers: they reveal the order of the windows.
TEST_F(Profile, StatisticsDoNotDependOnHowManyWindowsRunAtOnce) {
  ProfileOptions options;
  options.context = 8;
  options.chunk = 3;
  options.generate = 2;
  const std::vector<uint32_t> sizes = {30, 3, 150, 8, 1};
  ASSERT_TRUE(Run(sizes, options));
  const Statistics alone = collector_->statistics();
  ASSERT_EQ(alone.sessions.size(), sizes.size());
  for (const size_t sessions : {2u, 3u, 40u}) {
    SetUpCollector();
    ASSERT_TRUE(Run(sizes, options, sessions));
    EXPECT_EQ(StatisticsBytes("a.json", collector_->statistics()),
              StatisticsBytes("a.json", alone));
  }
  options.generate = 0;
  SetUpCollector();
  ASSERT_TRUE(Run(sizes, options));
  const std::string without = StatisticsBytes("a.json", collector_->statistics());
  for (const size_t sessions : {2u, 5u}) {
    SetUpCollector();
    ASSERT_TRUE(Run(sizes, options, sessions));
    EXPECT_EQ(StatisticsBytes("a.json", collector_->statistics()), without);
  }
}

TEST_F(Profile, AnErrorNamesTheTextsThatRanTogether) {
  ProfileOptions options;
  options.context = 200;  // more than a session of the fake model holds
  std::vector<uint32_t> ids(150);
  RoutedSession one(Successor, TwoOfFour, 100, &collector_->ObserverOf(0)),
      two(Successor, TwoOfFour, 100, &collector_->ObserverOf(1));
  Session* const sessions[] = {&one, &two};
  const TokenSession texts[] = {{"a", "", ids}, {"b", "", ids}};
  options.chunk = 150;
  const Status done = ProfileTexts(texts, options, sessions, *collector_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "session \"a\" to \"b\": no room");
}

}  // namespace
}  // namespace moepack::runtime
