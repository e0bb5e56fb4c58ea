#include "runtime-shim/refit/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime-shim/refit/tiny_refit.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kSmallTokens = 1200, kSmallWidth = 16, kSmallHidden = 32, kSmallKept = 4,
                   kSmallChosen = 2;

class RefitNeeds : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(refit_.Open()); }
  RefitEstimate Of(const RefitOptions& options) const {
    return EstimateRefit(refit_.input().model, refit_.plan, options, kSmallTokens);
  }
  TinyRefit refit_{"qwen3moe"};
};

// Of one expert.
constexpr uint64_t kOwnTokens = kSmallTokens * kSmallChosen / kSmallKept;
// The activations of all choices, which are held.
constexpr uint64_t kHeld = kSmallTokens * kSmallChosen * kSmallWidth * sizeof(float);

TEST_F(RefitNeeds, CountsTheJointMatrixAndItsActivations) {
  RefitOptions options = SmallOptions();
  options.steps = {kRidgeStep};
  const RefitEstimate estimate = Of(options);
  EXPECT_TRUE(estimate.joint);
  constexpr uint64_t kSize = kSmallKept * kSmallWidth;
  EXPECT_EQ(estimate.matrix_bytes,
            kSize * (kSize + kSmallHidden) * sizeof(double) + 2 * kHeld +
                // Inputs, residuals, outputs and activations.
                kOwnTokens * (3 * kSmallHidden + kSmallWidth) * sizeof(float));
}

// A plan also has the experts of blocks for multi-token prediction, which come after the layers.
TEST_F(RefitNeeds, LeavesOutWhatIsBehindTheLayers) {
  const RefitEstimate estimate = Of(SmallOptions());
  Plan plan = refit_.plan;
  plan.layers[refit_.input().model.spec().layers] = plan.layers.begin()->second;
  const RefitEstimate found =
      EstimateRefit(refit_.input().model, plan, SmallOptions(), kSmallTokens);
  EXPECT_EQ(found.products, estimate.products);
  EXPECT_EQ(found.matrix_bytes, estimate.matrix_bytes);
  EXPECT_EQ(found.weight_bytes, estimate.weight_bytes);
}

TEST_F(RefitNeeds, CountsTheNeuronsThatMayJoin) {
  RefitOptions options = SmallOptions();
  options.pool = 50;
  constexpr uint64_t kJoined = kSmallWidth + 50;
  const uint64_t bytes = Of(options).matrix_bytes;
  EXPECT_EQ(bytes, kJoined * 2 * (kJoined + kSmallHidden) * sizeof(double) +
                       2 * 100 * kSmallHidden * sizeof(float) +
                       kOwnTokens * (3 * kSmallHidden + 2 * kJoined) * sizeof(float) + kHeld +
                       // All neurons run on all tokens, in half precision.
                       kSmallTokens * 8 * kSmallWidth * sizeof(uint16_t) +
                       // All tokens of an expert are scored with twice the pool.
                       kOwnTokens * (2 * kSmallHidden + 100) * sizeof(float) +
                       100 * kSmallHidden * sizeof(float));
  options.pool = 1u << 30;  // the other seven experts have fewer
  EXPECT_LT(Of(options).matrix_bytes, 3 * bytes);
}

TEST_F(RefitNeeds, CountsTheProductsOfOutputsThatTheRouterIsFittedOn) {
  RefitOptions options = SmallOptions();
  options.steps = {kRouterStep};
  EXPECT_EQ(Of(options).matrix_bytes,
            kHeld + kSmallTokens * ((kSmallKept + 1) * kSmallKept + kSmallHidden) * sizeof(float) +
                512 * (kSmallKept + 2) * kSmallHidden * sizeof(float));
  options.memory = 4000;  // a quarter of it holds a few tokens
  EXPECT_LT(Of(options).matrix_bytes, 1000 + 512 * (kSmallKept + 2) * kSmallHidden * sizeof(float));
}

// Neurons run on a sample, and an expert scores the best with every n-th of its tokens, so that
// more text takes less than its share.
TEST_F(RefitNeeds, CountsTheTokensThatNeuronsAreScoredWith) {
  const auto refill = [this](uint64_t tokens) {
    RefitOptions options = SmallOptions();
    options.steps = {kRefillStep};
    const auto with = EstimateRefit(refit_.input().model, refit_.plan, options, tokens).products;
    options.steps.clear();
    return with - EstimateRefit(refit_.input().model, refit_.plan, options, tokens).products;
  };
  EXPECT_GT(refill(2000) / refill(1000), 1.8);
  EXPECT_LT(refill(20000) / refill(10000), refill(2000) / refill(1000));
}

// What does not fit goes to a scratch file, but for the down projections that a ridge regression
// keeps.
TEST_F(RefitNeeds, CountsExpertsFromBeforeAStepWhereTheyFit) {
  constexpr uint64_t kMatrices = kSmallKept * kSmallHidden * kSmallWidth * sizeof(float);
  RefitOptions options = SmallOptions();
  options.memory = 8 * 3 * kMatrices;
  const uint64_t fits = Of(options).weight_bytes;
  --options.memory;
  EXPECT_EQ(fits - Of(options).weight_bytes, 2 * kMatrices);
}

TEST_F(RefitNeeds, CountsTheMomentsAndTheBatchOfATuning) {
  RefitOptions options = SmallOptions();
  options.steps = {kTuneStep};
  constexpr uint64_t kMatrix = kSmallHidden * kSmallWidth;
  constexpr uint64_t kBatch = kSmallTokens / 16;  // 256 for each expert would be more
  for (const uint32_t jobs : {1u, 3u, 100u}) {
    options.jobs = jobs;
    // Of each expert that runs: two matrices, and rows of its tokens.
    const uint64_t experts = std::min<uint64_t>(jobs, kSmallKept);
    const auto scratch = static_cast<uint64_t>(
        2 * kMatrix + 1.0 * kBatch * kSmallChosen / kSmallKept * (kSmallHidden + kSmallWidth));
    EXPECT_EQ(Of(options).matrix_bytes,
              2 * kSmallKept * 3 * kMatrix * sizeof(float) +
                  kBatch * 4 * kSmallHidden * sizeof(float) +
                  kBatch * kSmallChosen * (2 * kSmallHidden + 3 * kSmallWidth) * sizeof(float) +
                  experts * scratch * sizeof(float) + kHeld);
  }
}

TEST(RefitNeedsOfASelectionBias, CountTheSampleOnWhichItIsSearched) {
  TinyRefit refit("glm4moe");
  ASSERT_TRUE(refit.Open());
  const auto needs = [&refit](std::vector<std::string> steps) {
    RefitOptions options = SmallOptions();
    options.steps = std::move(steps);
    options.updates = 0;
    return EstimateRefit(refit.input().model, refit.plan, options, kSmallTokens);
  };
  const RefitEstimate tune = needs({kTuneStep});
  // The sample is larger than what a tuning of these small experts takes.
  EXPECT_EQ(tune.matrix_bytes, needs({kRouterStep}).matrix_bytes);
  // A step ends with a run of the node, and the sample has the outputs of all experts.
  constexpr double kExpert = 3.0 * kSmallHidden * kSmallWidth;
  const double run = kSmallTokens * kSmallChosen * kExpert;
  const double sample = kSmallTokens * kSmallKept * (kExpert + kSmallKept * kSmallHidden / 2.0);
  const size_t layers = refit.plan.layers.size(), nodes = refit.plan.groups.size();
  EXPECT_DOUBLE_EQ(tune.products - needs({}).products,
                   static_cast<double>(layers * nodes) * (run + sample));
}

TEST_F(RefitNeeds, CountsTheUpdatesOfATuning) {
  const auto products = [this](uint32_t updates) {
    RefitOptions options = SmallOptions();
    options.steps = {kTuneStep};
    options.updates = updates;
    return Of(options).products;
  };
  EXPECT_GT(products(2), products(1));
  EXPECT_DOUBLE_EQ(products(21) - products(1), 20 * (products(2) - products(1)));
}

TEST_F(RefitNeeds, CountsTheRidgeRegressionThatIsRepeatedOnAllText) {
  const auto products = [this](std::vector<std::string> steps) {
    RefitOptions options = SmallOptions();
    options.steps = std::move(steps);
    return Of(options).products;
  };
  const double none = products({});
  const double router = products({kRouterStep}) - none, ridge = products({kRidgeStep}) - none;
  // The step itself, a second one, and what the second one needs.
  EXPECT_GT(products({kRidgeStep, kRidgeStep}) - none, ridge);
  EXPECT_LT(products({kRidgeStep, kRidgeStep}) - none, 2 * ridge);
  // It is repeated if the steps after it are dropped, too.
  EXPECT_DOUBLE_EQ(products({kRidgeStep, kRouterStep}) - none, ridge + router);
}

}  // namespace
}  // namespace moepack::runtime
