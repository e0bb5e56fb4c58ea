#include "runtime-shim/eval/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

LayerRouters Routers() {
  Routing router;
  router.expert_count = 4;
  router.top_k = 2;
  router.gating = Gating::kSoftmax;
  return {{2, router}};
}

// Two tokens at positions `first` and `first` + 1.
struct Tokens {
  std::vector<Selection> chosen = {{{0, 1}, {0.75f, 0.25f}}, {{3, 1}, {0.5f, 0.5f}}};
  // Unmasked, the first token would take 2 and 3 with e / (e + 1) and 1 / (e + 1).
  std::vector<float> logits = {0, 0, 9, 8, 5, 5, 0, 0};
  RoutedBatch At(uint32_t first) const {
    RoutedBatch batch;
    batch.layer = 2;
    batch.first_position = first;
    batch.tokens = 2;
    batch.expert_count = 4;
    batch.logits = logits;
    batch.chosen = chosen;
    return batch;
  }
};

TEST(Capture, IsTheGateShareOfEligibleExperts) {
  const Selection chosen = {{5, 2, 7}, {0.5f, 0.25f, 0.25f}};
  EXPECT_DOUBLE_EQ(CapturedShare(chosen, {2, 5}), 0.75);
  EXPECT_DOUBLE_EQ(CapturedShare(chosen, {}), 0);
  EXPECT_DOUBLE_EQ(CapturedShare(chosen, {2, 5, 7}), 1);
  EXPECT_DOUBLE_EQ(CapturedShare({{1}, {2.5f}}, {1}), 1);  // scaled gates
  EXPECT_DOUBLE_EQ(CapturedShare({}, {1}), 0);
}

TEST(Capture, MeasuresTheTeachersChoiceForEveryMask) {
  const LayerExperts a = {{2, {0, 3}}}, b = {{2, {1}}};
  const LayerRouters routers = Routers();
  CaptureObserver observer(CaptureObserver::Teacher::kApplied, {&a, &b}, routers, std::nullopt);
  observer.StartWindow();
  observer.Feeding(std::vector<uint32_t>{7, 7, 7});
  observer.Observe(Tokens().At(1));
  const auto captures = observer.Take();
  ASSERT_EQ(captures.size(), 2u);
  EXPECT_THAT(captures[0][0], ElementsAre(0.75f, 0.5f));
  EXPECT_THAT(captures[1][0], ElementsAre(0.25f, 0.5f));
  EXPECT_THAT(observer.Take()[0][0], ElementsAre());
}

TEST(Capture, ChoosesFromUnmaskedLogitsOnPolicy) {
  const LayerExperts mask = {{2, {0, 2}}};
  const LayerRouters routers = Routers();
  CaptureObserver observer(CaptureObserver::Teacher::kUnmasked, {&mask}, routers, std::nullopt);
  observer.StartWindow();
  observer.Feeding(std::vector<uint32_t>{7, 7, 7});
  observer.Observe(Tokens().At(1));
  EXPECT_THAT(observer.Take()[0][0], ElementsAre(FloatEq(0.73105858f), FloatEq(0.5f)));
}

TEST(Capture, IgnoresAttentionSinksOtherLayersAndGeneratedTokens) {
  const LayerExperts mask = {{2, {0, 3}}};
  const LayerRouters routers = Routers();
  CaptureObserver observer(CaptureObserver::Teacher::kApplied, {&mask}, routers, 9);
  observer.StartWindow();
  observer.Feeding(std::vector<uint32_t>{7, 7, 9});
  observer.Observe(Tokens().At(0));  // position 0 is a sink
  EXPECT_THAT(observer.Take()[0][0], ElementsAre(0.5f));
  observer.Observe(Tokens().At(1));  // position 2 is the start of a sequence
  EXPECT_THAT(observer.Take()[0][0], ElementsAre(0.75f));
  RoutedBatch other = Tokens().At(1);
  other.layer = 1;
  observer.Observe(other);
  observer.Rest(true);
  observer.Observe(Tokens().At(1));
  EXPECT_THAT(observer.Take()[0][0], ElementsAre());
}

}  // namespace
}  // namespace moepack::runtime
