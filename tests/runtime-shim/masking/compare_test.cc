#include "runtime-shim/masking/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/runtime-shim/fake_session.h"

namespace moepack::runtime {
namespace {

TEST(CompareLogits, MeasuresTheLargestDifferenceAgainstTheLargestLogit) {
  const std::vector<float> expected = {1, -8, 2}, actual = {1, -8.5f, 2.25f};
  const LogitsDifference difference = CompareLogits(expected, actual);
  EXPECT_FALSE(difference.same_bits);
  EXPECT_DOUBLE_EQ(difference.largest, 0.5);
  EXPECT_DOUBLE_EQ(difference.relative, 0.0625);
}

TEST(CompareLogits, NoticesTheSignOfZeroOnlyInTheBits) {
  const LogitsDifference difference =
      CompareLogits(std::vector<float>{0.0f}, std::vector<float>{-0.0f});
  EXPECT_FALSE(difference.same_bits);
  EXPECT_EQ(difference.relative, 0);
  EXPECT_TRUE(CompareLogits(std::vector<float>{3}, std::vector<float>{3}).same_bits);
}

std::vector<float> Plain(uint32_t position, uint32_t) {
  return {4, static_cast<float>(position), 0, 0};
}

// Like Plain, a little off from position 2 on, and with another top token at position 5.
std::vector<float> Other(uint32_t position, uint32_t token) {
  std::vector<float> logits = Plain(position, token);
  if (position >= 2) logits[2] += 0.25f;
  if (position == 5) logits[3] = 9;
  return logits;
}

std::vector<uint32_t> Tokens(size_t count) { return std::vector<uint32_t>(count, 1); }

TEST(SideBySide, ReportsNothingForEqualSessions) {
  FakeSession a(Plain), b(Plain);
  SideBySide both(a, b, 0);
  ASSERT_TRUE(both.Feed(Tokens(40)));
  EXPECT_EQ(both.findings().positions, 40u);
  EXPECT_TRUE(both.findings().worst.same_bits);
  EXPECT_FALSE(both.findings().failure);
  EXPECT_FALSE(both.findings().greedy);
}

TEST(SideBySide, NamesTheFirstPositionsAndTheWorstOne) {
  FakeSession a(Plain), b(Other);
  SideBySide both(a, b, 0);
  ASSERT_TRUE(both.Feed(Tokens(3)));
  ASSERT_TRUE(both.Feed(Tokens(30)));
  const SideBySide::Findings& found = both.findings();
  EXPECT_EQ(found.failure, 2u);
  ASSERT_TRUE(found.greedy);
  EXPECT_EQ(found.greedy->position, 5u);
  EXPECT_EQ(found.greedy->expected, 1u);
  EXPECT_EQ(found.greedy->actual, 3u);
  EXPECT_EQ(found.worst_position, 5u);
  EXPECT_DOUBLE_EQ(found.worst.largest, 9);
  EXPECT_FALSE(found.worst.same_bits);
}

TEST(SideBySide, DifferencesWithinTheToleranceAreNotFailures) {
  FakeSession a(Plain), b(Other);
  SideBySide both(a, b, 0.1);
  ASSERT_TRUE(both.Feed(Tokens(10)));
  EXPECT_EQ(both.findings().failure, 5u);
}

TEST(SideBySide, GivesTheLogitsAfterTheLastToken) {
  FakeSession a(Plain), b(Other);
  SideBySide both(a, b, 0);
  ASSERT_TRUE(both.Feed(Tokens(20)));
  EXPECT_EQ(both.logits()[1], 19);
}

TEST(SideBySide, StopsAtDifferentVocabulariesAndErrorsOfEitherSide) {
  FakeSession a(Plain), narrow([](uint32_t, uint32_t) { return std::vector<float>(3); });
  const auto fed = SideBySide(a, narrow, 0).Feed(Tokens(2));
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code, Code::kMismatch);
  EXPECT_EQ(fed.error().message, "vocabulary: expected 4 tokens, found 3");
  FakeSession b(Plain), full(Plain, 1);
  EXPECT_FALSE(SideBySide(b, full, 0).Feed(Tokens(2)));
}

using testing::HasSubstr;

struct Decision {
  std::vector<float> logits = {1, 2, 3};
  Selection chosen = {{2, 1}, {0.6f, 0.4f}};
  std::vector<float> norms = {7, 8}, peaks = {2, 3};
};

void ShowRouting(RoutingTrace& trace, uint32_t layer, uint32_t position, const Decision& decision) {
  RoutedBatch batch;
  batch.layer = layer;
  batch.first_position = position;
  batch.tokens = 1;
  batch.expert_count = 3;
  batch.logits = decision.logits;
  batch.chosen = std::span(&decision.chosen, 1);
  batch.output_norms = decision.norms;
  batch.output_peaks = decision.peaks;
  trace.Observe(batch);
}

// Two positions of two layers, with `odd` at layer 1 of position 0.
std::optional<RoutingDifference> Compare(const Decision& odd, double tolerance = 0) {
  RoutingTrace expected, actual;
  for (const uint32_t position : {0u, 1u}) {
    for (const uint32_t layer : {0u, 1u}) {
      ShowRouting(expected, layer, position, Decision());
      ShowRouting(actual, layer, position, position == 0 && layer == 1 ? odd : Decision());
    }
  }
  return FirstDifference(expected, actual, tolerance);
}

TEST(RoutingTrace, EqualRunsHaveNoDifference) { EXPECT_FALSE(Compare(Decision())); }

TEST(RoutingTrace, NamesPositionLayerAndExpertWhoseOutputDiffers) {
  Decision odd;
  odd.norms[1] = 8.5f;
  const auto difference = Compare(odd);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->position, 0u);
  EXPECT_EQ(difference->layer, 1u);
  EXPECT_EQ(difference->what, "expert 1 outputs other values");
  EXPECT_FALSE(Compare(odd, 0.1));
}

TEST(RoutingTrace, DistinguishesLogitsChoiceAndGates) {
  Decision logits, choice, gates;
  logits.logits[0] = 0;
  choice.chosen.ids = {2, 0};
  gates.chosen.weights = {0.7f, 0.3f};
  EXPECT_THAT(Compare(logits)->what, HasSubstr("before this layer's experts"));
  EXPECT_EQ(Compare(choice)->what, "experts 2,1 were expected, 2,0 chosen");
  EXPECT_THAT(Compare(gates)->what, HasSubstr("gates"));
}

TEST(RoutingTrace, ReportsAnEarlierPositionBeforeAnEarlierLayer) {
  RoutingTrace expected, actual;
  Decision odd;
  odd.norms[0] = 1;
  ShowRouting(expected, 1, 0, Decision());
  ShowRouting(actual, 1, 0, odd);
  ShowRouting(expected, 0, 1, Decision());
  ShowRouting(actual, 0, 1, odd);
  const auto difference = FirstDifference(expected, actual, 0);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->position, 0u);
  EXPECT_EQ(difference->layer, 1u);
}

TEST(RoutingTrace, RecordsWhichExpertsTookPart) {
  RoutingTrace trace;
  ShowRouting(trace, 0, 0, Decision());
  Decision other;
  other.chosen.ids = {0, 1};
  ShowRouting(trace, 0, 1, other);
  ShowRouting(trace, 3, 0, Decision());
  EXPECT_EQ(trace.Used(), (LayerExperts{{0, {0, 1, 2}}, {3, {1, 2}}}));
}

}  // namespace

}  // namespace moepack::runtime
