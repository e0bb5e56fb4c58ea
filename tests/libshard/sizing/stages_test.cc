#include "libshard/sizing/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Layers of these bytes, without experts.
StageInput InputOf(const std::vector<uint64_t>& layers) {
  StageInput input;
  for (uint32_t i = 0; i < layers.size(); ++i) input.bytes.layers[i] = {.trunk = layers[i]};
  return input;
}

std::string TextOf(const std::vector<StageNeed>& stages) {
  std::string text;
  for (const StageNeed& need : stages) {
    text += Cat(need.range.first_layer, "-", need.range.last_layer, ": ", need.total(), "; ");
  }
  return text;
}

std::string Divided(const StageInput& input, uint32_t stages) {
  const auto needs = DivideIntoStages(input, stages);
  return needs ? TextOf(*needs) : needs.error().message;
}

// The smallest possible largest stage, found by brute force.
uint64_t LeastLargest(const std::vector<uint64_t>& layers, size_t begin, uint32_t stages) {
  uint64_t sum = 0, best = UINT64_MAX;
  for (size_t end = begin; end < layers.size(); ++end) {
    sum += layers[end];
    if (stages == 1) continue;
    if (layers.size() - end - 1 < stages - 1) break;
    best = std::min(best, std::max(sum, LeastLargest(layers, end + 1, stages - 1)));
  }
  return stages == 1 ? sum : best;
}

TEST(Stages, MinimizesTheLargestStage) {
  uint64_t state = 1;
  const auto next = [&] { return (state = state * 6364136223846793005u + 1) >> 58; };
  for (size_t count = 1; count <= 9; ++count) {
    for (uint32_t stages = 1; stages <= count; ++stages) {
      std::vector<uint64_t> layers(count);
      for (uint64_t& bytes : layers) bytes = 1 + next();
      const auto needs = DivideIntoStages(InputOf(layers), stages);
      ASSERT_TRUE(needs) << needs.error().message;
      ASSERT_EQ(needs->size(), stages);
      uint64_t largest = 0;
      for (const StageNeed& need : *needs) largest = std::max(largest, need.total());
      EXPECT_EQ(largest, LeastLargest(layers, 0, stages)) << count << " layers, " << stages;
    }
  }
}

TEST(Stages, TheEmbeddingGoesFirstAndTheHeadLast) {
  StageInput input = InputOf({10, 10, 10, 10});
  input.bytes.before = input.bytes.embedding = 20;
  input.bytes.after = 5;
  EXPECT_EQ(Divided(input, 2), "0-0: 30; 1-3: 35; ");
  // The embedding is also the head, so the last stage has a copy.
  input.bytes.tied = true;
  EXPECT_EQ(Divided(input, 2), "0-1: 40; 2-3: 45; ");
  EXPECT_EQ(Divided(input, 1), "0-3: 65; ");
}

TEST(Stages, CountTheExpertsCacheAndBuffers) {
  StageInput input = InputOf({1, 1});
  input.bytes.layers[1].expert = 10;
  input.eligible = 3;
  input.cache = {{0, 100}, {1, 7}};
  input.buffers = 1000;
  EXPECT_EQ(Divided(input, 2), "0-0: 1101; 1-1: 1038; ");
}

TEST(Stages, ALargerMachineGetsMoreLayers) {
  StageInput input = InputOf({10, 10, 10, 10});
  input.budgets = {15, 45};
  EXPECT_EQ(Divided(input, 2), "0-0: 10; 1-3: 30; ");
  input.budgets = {45, 15};
  EXPECT_EQ(Divided(input, 2), "0-2: 30; 3-3: 10; ");
}

// The smallest possible share of the fullest machine, found by brute force.
double LeastShare(const std::vector<uint64_t>& layers, const std::vector<uint64_t>& budgets,
                  size_t begin, size_t stage) {
  const size_t later = budgets.size() - stage - 1;
  double best = std::numeric_limits<double>::infinity();
  uint64_t sum = 0;
  for (size_t end = begin + 1; end + later <= layers.size(); ++end) {
    sum += layers[end - 1];
    const double share = static_cast<double>(sum) / static_cast<double>(budgets[stage]);
    if (later > 0) {
      best = std::min(best, std::max(share, LeastShare(layers, budgets, end, stage + 1)));
    } else if (end == layers.size()) {
      best = share;
    }
  }
  return best;
}

TEST(Stages, MinimizesTheFullestOfMachinesThatDiffer) {
  // With one layer more the first two machines are less full, because the large layer moves.
  StageInput input = InputOf({1, 10, 1, 1});
  input.budgets = {100, 1, 100};
  EXPECT_EQ(Divided(input, 3), "0-1: 11; 2-2: 1; 3-3: 1; ");
  uint64_t state = 1;
  const auto next = [&] { return (state = state * 6364136223846793005u + 1) >> 58; };
  for (size_t count = 2; count <= 8; ++count) {
    for (size_t stages = 2; stages <= count; ++stages) {
      std::vector<uint64_t> layers(count);
      for (uint64_t& bytes : layers) bytes = 1 + next();
      StageInput many = InputOf(layers);
      // So large that none is refused; only their ratios count.
      for (size_t stage = 0; stage < stages; ++stage) many.budgets.push_back(1000 * (1 + next()));
      const auto needs = DivideIntoStages(many, static_cast<uint32_t>(stages));
      ASSERT_TRUE(needs) << needs.error().message;
      double fullest = 0;
      for (const StageNeed& need : *needs) {
        const auto total = static_cast<double>(need.total());
        fullest = std::max(fullest, total / static_cast<double>(need.budget));
      }
      EXPECT_EQ(fullest, LeastShare(layers, many.budgets, 0, 0)) << count << " layers, " << stages;
    }
  }
}

TEST(Stages, AStageThatDoesNotFitIsRefusedWithItsParts) {
  StageInput input = InputOf({1'000'000, 1'000'000, 1'000'000});
  input.cache = {{0, 500'000}};
  input.buffers = 200'000;
  input.budgets = {1'500'000, 2'500'000};
  const auto needs = DivideIntoStages(input, 2);
  ASSERT_FALSE(needs);
  EXPECT_EQ(needs.error().code, Code::kInvalidArgument);
  EXPECT_EQ(needs.error().message,
            "stage 0 (1.50 MB): layers 0 to 0: weights 1.00 MB + cache 500 kB + buffers 200 kB = "
            "1.70 MB: 200 kB too much");
}

TEST(Stages, MoreStagesThanLayersAreRefused) {
  EXPECT_EQ(Divided(InputOf({1, 1}), 3),
            "--stages: expected 1 to 2, the layers of the model, found 3");
  EXPECT_EQ(Divided(InputOf({1, 1}), 0),
            "--stages: expected 1 to 2, the layers of the model, found 0");
}

TEST(Stages, AreFoundQuicklyForManyLayersAndStages) {
  std::vector<uint64_t> layers(4096, 3);
  const auto needs = DivideIntoStages(InputOf(layers), 512);
  ASSERT_TRUE(needs) << needs.error().message;
  for (const StageNeed& need : *needs) EXPECT_EQ(need.weights, 24u);
}

}  // namespace
}  // namespace moepack
