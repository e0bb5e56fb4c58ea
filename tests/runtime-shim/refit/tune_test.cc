#include "runtime-shim/refit/tune.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/runtime-shim/refit/made_layer.h"

namespace moepack::runtime {
namespace {

TuneLoss Tune(MadeNode& made, const TuneOptions& options) {
  made.Run();
  const auto loss = TuneExperts(made.products(), options, made.node);
  EXPECT_TRUE(loss) << loss.error().message;
  return loss ? *loss : TuneLoss();
}

// What differs between the models of TuneOf.
struct Kind {
  const char* name;
  Gating gating = Gating::kSoftmax;
  Activation activation = Activation::kSilu;
  bool weigh_inputs = false, scales = false, biases = false, gated = true;
  bool selects = false;  // with a bias that affects the choice
};

class TuneOf : public testing::TestWithParam<Kind> {
 protected:
  static constexpr size_t kTokens = 64;

  TuneOf() : layer_(1, {.tokens = kTokens}, GetParam().biases) {
    NodeLayer& node = made().node;
    node.routing.gating = GetParam().gating;
    node.form = {GetParam().activation, GetParam().weigh_inputs};
    if (GetParam().scales) node.scales = {0.5f, 2, 1, 3};
    if (!GetParam().gated) node.experts.gate.clear();
    if (!GetParam().selects) node.experts.selection_bias.clear();
    // Weights of the errors that differ, as for text of other groups.
    for (size_t token = 0; token < kTokens; ++token)
      node.fit_weights[token] *= token % 3 == 0 ? 0.1f : 1;
  }

  MadeNode& made() { return layer_.made; }
  double ErrorWith(std::vector<float>& values, size_t changed, float value) {
    const float before = values[changed];
    values[changed] = value;
    made().Run();
    values[changed] = before;
    return made().FitError();
  }

 private:
  MadeLayer layer_;
};

// The first step of Adam moves every value by the rate, against its gradient. The sign of the
// gradient comes from two runs of the whole node.
TEST_P(TuneOf, LayerMovesEveryValueAgainstItsSlope) {
  TuneOptions options;
  options.updates = 1;
  options.rate = 1e-3;
  options.expert_tokens = kTokens;
  options.share = 1;
  RefittedExperts& now = made().node.experts;
  const RefittedExperts before = now;
  Tune(made(), options);
  const RefittedExperts after = now;
  now = before;
  size_t compared = 0;
  for (const RefittedArray& array : RefittedArrays()) {
    std::vector<float>& values = now.*array.values;
    const bool of_router = &values == &now.router || &values == &now.router_bias;
    const bool router_stays = GetParam().weigh_inputs || GetParam().selects;
    const bool stays = &values == &now.selection_bias || (of_router && router_stays);
    for (size_t i = 0; i < values.size(); ++i) {
      const float moved = (after.*array.values)[i] - values[i];
      if (stays) {
        EXPECT_EQ(moved, 0) << array.name << ' ' << i;
        continue;
      }
      const float step = 2e-3f * std::max(0.1f, std::abs(values[i]));
      const double slope =
          (ErrorWith(values, i, values[i] + step) - ErrorWith(values, i, values[i] - step)) /
          (2 * step);
      // Smaller ones drown in the rounding of the outputs, and a choice that a step changes makes
      // one large.
      if (std::abs(slope) < 1e-3) continue;
      EXPECT_LT(moved * slope, 0) << array.name << ' ' << i << ": slope " << slope;
      ++compared;
    }
  }
  EXPECT_GT(compared, 100u);
}

TEST_P(TuneOf, LayerGetsCloserToTheTargets) {
  made().TargetOthers([&] {
    RefittedExperts others = made().node.experts;
    for (float& value : others.up) value *= 0.5f;
    for (size_t i = 0; i < others.down.size(); i += 3) others.down[i] += 0.5f;
    return others;
  }());
  made().Run();
  const double before = made().FitError();
  const TuneLoss loss = Tune(made(), {.expert_tokens = kTokens, .share = 1});
  made().Run();
  EXPECT_NEAR(loss.first, before, 1e-3 * before);
  EXPECT_LT(loss.last, 0.2 * loss.first);
  EXPECT_LT(made().FitError(), 0.2 * before);
}

INSTANTIATE_TEST_SUITE_P(
    Every, TuneOf,
    testing::Values(
        Kind{.name = "Softmax"}, Kind{.name = "Sigmoid", .gating = Gating::kSigmoid},
        Kind{.name = "GptOss",
             .gating = Gating::kSoftmaxAfterTopK,
             .activation = Activation::kClampedSilu,
             .biases = true},
        Kind{.name = "DeepSeekV3", .gating = Gating::kSigmoid, .biases = true, .selects = true},
        Kind{.name = "Llama4", .gating = Gating::kSigmoid, .weigh_inputs = true},
        Kind{.name = "Gemma4", .activation = Activation::kGelu, .scales = true},
        Kind{.name = "KimiK3",
             .gating = Gating::kSigmoid,
             .activation = Activation(Activation::kSitu, 4, 25)},
        Kind{.name = "Ungated", .activation = Activation::kSquaredRelu, .gated = false}),
    [](const auto& kind) { return std::string(kind.param.name); });

// Targets that other experts would meet.
void AskForOthers(MadeNode& made) {
  made.TargetOthers(RandomExperts(made.shape(), 50));
  made.Run();
}

TEST(Tune, KeepsFixedExperts) {
  MadeNode made;
  AskForOthers(made);
  made.node.fixed[2] = true;
  const RefittedExperts before = made.node.experts;
  Tune(made, {.updates = 5});
  for (const auto array : {&RefittedExperts::gate, &RefittedExperts::up, &RefittedExperts::down,
                           &RefittedExperts::router}) {
    const std::vector<float>&now = made.node.experts.*array, &then = before.*array;
    const size_t one = now.size() / before.expert_ids.size();
    for (size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i] == then[i], i / one == 2) << i;
  }
}

TEST(Tune, KeepsExpertsOfFewTokensAndMovesTheirRouterRows) {
  MadeNode made;
  AskForOthers(made);
  made.node.least_tokens = made.node.tokens() + 1;
  const RefittedExperts before = made.node.experts;
  Tune(made, {.updates = 5});
  EXPECT_EQ(made.node.experts.gate, before.gate);
  EXPECT_EQ(made.node.experts.up, before.up);
  EXPECT_EQ(made.node.experts.down, before.down);
  EXPECT_NE(made.node.experts.router, before.router);
}

TEST(Tune, DoesNothingIfNoTokenCounts) {
  MadeNode made;
  made.node.fit_weights.assign(made.node.tokens(), 0);
  const RefittedExperts before = made.node.experts;
  const TuneLoss loss = Tune(made, {});
  EXPECT_EQ(loss.first, 0);
  EXPECT_EQ(made.node.experts.down, before.down);
}

// Held-out tokens whose targets are what the experts make of them already.
void KeepTargetsOfHeldOutTokens(MadeNode& made) {
  made.Run();
  std::vector<float> row(made.shape().hidden);
  for (uint32_t token = 0; token < made.node.tokens(); ++token) {
    if (made.node.fold_weights[token] == 0) continue;
    ASSERT_TRUE(made.node.outputs->Read(token, row));
    ASSERT_TRUE(made.targets().Write(token, row));
  }
}

TEST(Tune, EndsSoonerWhereHeldOutTextDoesNotGetBetter) {
  for (const bool apart : {false, true}) {
    MadeNode made;
    AskForOthers(made);
    if (apart) KeepTargetsOfHeldOutTokens(made);
    // Its best error is that before update 25, and four more do not improve it: 125 and 15.
    EXPECT_EQ(Tune(made, {}).updates, apart ? 140u : TuneOptions().updates);
  }
}

TEST(Tune, UpdatesWithAsManyTokensForEachExpertButNotWithMostOfTheText) {
  const TuneOptions options;  // 256 for each expert, a sixteenth of the text
  EXPECT_EQ(TokensOfUpdate(options, 64, 8, 1'000'000), 2048u);
  EXPECT_EQ(TokensOfUpdate(options, 8, 2, 1'000'000), 1024u);
  EXPECT_EQ(TokensOfUpdate(options, 8, 2, 800), 50u);
  EXPECT_EQ(TokensOfUpdate(options, 8, 2, 3), 1u);
}

TEST(Tune, ChangesNothingIfTheLossIsNotFinite) {
  MadeNode made;
  for (float& value : made.node.experts.down) value *= 1e38f;
  const RefittedExperts before = made.node.experts;
  Tune(made, {});
  for (const RefittedArray& array : RefittedArrays())
    EXPECT_EQ(made.node.experts.*array.values, before.*array.values) << array.name;
}

TEST(Tune, ChangesNothingForTargetsOfZero) {
  MadeNode made;
  ASSERT_TRUE(
      made.targets().Write(0, std::vector<float>(made.node.tokens() * made.shape().hidden, 0)));
  const RefittedExperts before = made.node.experts;
  Tune(made, {.updates = 3});
  EXPECT_EQ(made.node.experts.down, before.down);
  EXPECT_EQ(made.node.experts.router, before.router);
}

TEST(Tune, LossOfOneUpdateIsTheFirstAndTheLast) {
  MadeNode made;
  const TuneLoss loss = Tune(made, {.updates = 1});
  EXPECT_GT(loss.first, 0);
  EXPECT_EQ(loss.last, loss.first);
}

// Rows, matrices and tokens of several pieces.
TEST(Tune, BitsDoNotDependOnThreads) {
  const MadeShape shape = {.hidden = 512, .width = 384, .tokens = 700};
  MadeNode one(shape, 1), three(shape, 3);
  for (MadeNode* made : {&one, &three}) Tune(*made, {.updates = 2, .share = 1});
  for (const RefittedArray& array : RefittedArrays())
    EXPECT_EQ(one.node.experts.*array.values, three.node.experts.*array.values) << array.name;
}

}  // namespace
}  // namespace moepack::runtime
