#include "runtime-shim/masking/routing_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

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
  EXPECT_EQ(difference->what, "expert 1 puts out other values");
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
