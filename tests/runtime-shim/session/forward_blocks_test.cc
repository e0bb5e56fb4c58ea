// MiniMax-M3 sees only some blocks of keys. Stock llama.cpp v0.5.0 picks them only with flash
// attention, which computes in F16: these are its log-probabilities for the F32 file of
// fixtures/golden/convert/minimax-m3. Without flash attention it ignores the indexer, and so do the
// figures of NOTE.md, which agree with the model's in the first two blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime-shim/devices/executors.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {
namespace {

struct PickedToken {
  uint32_t id, likeliest;
  double log_probability;
};
constexpr PickedToken kPicked[] = {
    {17, 146, -5.52304},  {401, 485, -5.51442}, {88, 502, -5.63056},  {256, 276, -5.80004},
    {733, 95, -5.20934},  {12, 269, -5.53628},  {640, 867, -5.74493}, {97, 250, -5.66774},
    {305, 279, -5.69592}, {918, 578, -5.53954}, {4, 198, -5.68210},   {551, 896, -5.60702},
    {276, 480, -5.53610}, {830, 654, -5.51860}, {63, 1006, -5.57737}, {199, 265, -5.61022},
    {702, 990, -5.57850}, {345, 179, -5.66064}, {21, 378, -5.58083},  {480, 754, -5.81672},
    {611, 76, -5.64749},  {150, 90, -5.42743},  {999, 970, -5.60190}, {72, 802, -5.40301}};
// What F16 changes; seeing all keys changes 0.2.
constexpr double kFlashTolerance = 5e-4;

double LargestDifferenceOf(const Model& model, uint32_t batch) {
  const LayerExperts eligible = EligibleExperts(model.weights(), std::nullopt, true);
  const auto session = Session::Open(model, eligible, {.context = 64, .batch = batch});
  EXPECT_TRUE(session) << session.error().message;
  std::vector<uint32_t> ids;
  for (const PickedToken& token : kPicked) ids.push_back(token.id);
  const auto logits = (*session)->Feed(ids, LogitsOf::kAll);
  EXPECT_TRUE(logits) << logits.error().message;
  double largest = 0;
  for (size_t row = 0; row < ids.size(); ++row) {
    const std::span<const float> own =
        std::span(*logits).subspan(row * model.vocabulary(), model.vocabulary());
    const double most = *std::max_element(own.begin(), own.end());
    double sum = 0;
    for (const float logit : own) sum += std::exp(logit - most);
    const double found = own[kPicked[row].likeliest] - most - std::log(sum);
    largest = std::max(largest, std::abs(found - kPicked[row].log_probability));
  }
  return largest;
}

TEST(ForwardBlocks, PickWhatLlamaCppPicksWithFlashAttention) {
  for (const ExecutorKind& kind : AllExecutorKinds()) {
    const auto executor = OpenExecutor(kind.name, {});
    if (!executor) continue;  // this build or machine lacks it
    SCOPED_TRACE(kind.name);
    auto weights =
        LoadWeights(MOEPACK_SOURCE_DIR "/fixtures/golden/convert/minimax-m3", LoadOptions());
    ASSERT_TRUE(weights) << weights.error().message;
    const auto model = Model::Load(std::move(*weights), **executor);
    ASSERT_TRUE(model) << model.error().message;
    for (const uint32_t batch : {24u, 5u})
      EXPECT_LE(LargestDifferenceOf(**model, batch), kFlashTolerance);
  }
}

}  // namespace
}  // namespace moepack::runtime
