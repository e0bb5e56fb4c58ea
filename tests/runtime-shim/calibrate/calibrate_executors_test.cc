// A small calibration on every executor, beside the same one on the cpu.
#include <gtest/gtest.h>

#include <cmath>

#include "quant/format.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/estimate.h"
#include "runtime-shim/calibrate/moments.h"
#include "runtime-shim/devices/executors.h"
#include "tests/runtime-shim/random_floats.h"
#include "tests/runtime-shim/refit/tiny_refit.h"

namespace moepack::runtime {
namespace {

// All tensors of a layer's matrices that have whole blocks.
TensorTypes TypesOf(const Weights& weights, const quant::Format* type) {
  TensorTypes types;
  const auto add = [&](const std::vector<HostTensor>& tensors) {
    for (const HostTensor& tensor : tensors) {
      if (tensor.shape.size() < 2 || !type->BytesFor(tensor.shape.back())) continue;
      if (tensor.name.find("ffn_gate_inp") == std::string::npos) types[tensor.name] = type;
    }
  };
  add(weights.trunk);
  for (const ExpertSet& set : weights.sets) add(set.tensors);
  return types;
}

// The first layers of a tiny model; its output is the one after the last. The watch is destroyed
// after the executor.
std::vector<EncodedLayer> Calibrate(const std::string& executor, uint64_t tokens,
                                    uint32_t layers = 3) {
  const auto weights = TinyWeights("qwen3moe");
  ProductWatch watch;
  std::shared_ptr<Executor> device = std::move(*OpenExecutor(executor, {.threads = 1}));
  ObservedExecutor observed(std::move(device), watch);
  const auto model = Model::Load(weights, observed);
  EXPECT_TRUE(model);
  watch.SetWeights(*weights);
  std::vector<uint32_t> first, second;
  for (uint32_t seed = 1; first.size() < tokens; ++seed) {
    for (const uint32_t token : RandomTokens(seed))
      (seed % 2 == 0 ? second : first).push_back(token);
  }
  const std::vector<TokenSession> sessions = {{"one", "", first, {}}, {"two", "", second, {}}};
  const CalibrateInput input{
      **model, watch, TypesOf(*weights, quant::FindFormat("q4_0")), sessions, {}};
  CalibrateOptions options;
  options.tokens = tokens;
  options.context = 16;
  options.least_tokens = 8;
  options.jobs = 1;
  const auto calibrator = Calibrator::Open(input, options, {});
  EXPECT_TRUE(calibrator);
  std::vector<EncodedLayer> made;
  for (uint32_t layer = 0; calibrator && layer < layers; ++layer) {
    auto encoded = (*calibrator)->Encode(layer);
    EXPECT_TRUE(encoded) << encoded.error().message;
    if (!encoded) break;
    made.push_back(*std::move(encoded));
  }
  return made;
}

class CalibrateOn : public testing::TestWithParam<ExecutorKind> {
 protected:
  void SetUp() override {
    auto opened = OpenExecutor(GetParam().name, {});
    if (!opened)
      GTEST_SKIP() << "SKIPPED executor " << GetParam().name << ": " << opened.error().message;
    executor_ = std::move(*opened);
  }
  bool emulated() const { return executor_->description().starts_with("emulated"); }

  std::unique_ptr<Executor> executor_;
};

TEST_P(CalibrateOn, SumsMomentsAsPlainLoopsDo) {
  // Neither the rows nor the columns fill whole blocks.
  constexpr size_t kColumns = 45, kRows = 2300;
  const std::vector<float> rows = RandomFloats(kRows * kColumns, 4),
                           full = RandomFloats(kRows * kColumns, 5);
  Products three(*executor_, 3), one(*executor_, 1);
  MomentSums sums(kColumns, true, three), again(kColumns, true, one);
  const size_t first = 700 * kColumns;
  ASSERT_TRUE(sums.Add(std::span(rows).first(first), std::span(full).first(first)));
  ASSERT_TRUE(sums.Add(std::span(rows).subspan(first), std::span(full).subspan(first)));
  ASSERT_TRUE(again.Add(rows, full));
  const auto found = sums.Finish(), same = again.Finish();
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(found->tokens, kRows);
  EXPECT_EQ(found->own, same->own);
  EXPECT_EQ(found->drift, same->drift);
  for (size_t i = 0; i < kColumns; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      double own = 0, drift = 0;
      for (size_t t = 0; t < kRows; ++t) {
        const double x = rows[t * kColumns + i], y = rows[t * kColumns + j];
        own += x * y;
        drift += (full[t * kColumns + i] - x) * y;
      }
      ASSERT_NEAR(found->own[i * kColumns + j], own, 1e-2) << i << " " << j;
      ASSERT_NEAR(found->drift[i * kColumns + j], drift, 1e-2) << i << " " << j;
    }
  }
}

// Executors round differently, so that some levels are others.
TEST_P(CalibrateOn, HasTheErrorsOfTheCpu) {
  // More than are held before they are multiplied, except where that would take minutes.
  const uint64_t tokens = emulated() ? 400 : 3000;
  const std::vector<EncodedLayer> found = Calibrate(GetParam().name, tokens),
                                  expected = Calibrate("cpu", tokens);
  ASSERT_EQ(found.size(), 3u);
  ASSERT_EQ(expected.size(), 3u);
  size_t accepted = 0, bytes = 0, same = 0;
  for (size_t layer = 0; layer < found.size(); ++layer) {
    const CalibratedOutcome &a = found[layer].outcome, &b = expected[layer].outcome;
    EXPECT_EQ(a.matrices, b.matrices) << layer;
    EXPECT_NEAR(a.error_plain, b.error_plain, 0.02 * std::abs(b.error_plain)) << layer;
    EXPECT_NEAR(a.error, b.error, 0.02 * std::abs(b.error_plain)) << layer;
    accepted += a.accepted;
    ASSERT_EQ(found[layer].tensors.size(), expected[layer].tensors.size()) << layer;
    for (const auto& [name, encoded] : expected[layer].tensors) {
      const std::vector<std::byte>& own = found[layer].tensors.at(name);
      ASSERT_EQ(own.size(), encoded.size()) << name;
      bytes += own.size();
      for (size_t i = 0; i < own.size(); ++i) same += own[i] == encoded[i] ? 1 : 0;
    }
  }
  EXPECT_GE(accepted, 10u);
  EXPECT_GE(static_cast<double>(same), 0.9 * static_cast<double>(bytes));
}

// Encoded tensors of the layer are on the executor then.
TEST_P(CalibrateOn, EndsInTheMiddle) {
  EXPECT_EQ(Calibrate(GetParam().name, 100, /*layers=*/1).size(), 1u);
}

TEST_P(CalibrateOn, IsEstimated) {
  if (emulated()) GTEST_SKIP() << "the trial of its speed takes minutes on an emulated device";
  const auto weights = TinyWeights("qwen3moe");
  const auto model = Model::Load(weights, *executor_);
  ASSERT_TRUE(model);
  const auto estimate = EstimateCalibration(**model, TypesOf(*weights, quant::FindFormat("q4_0")),
                                            {.tokens = 1000, .jobs = 1});
  ASSERT_TRUE(estimate) << estimate.error().message;
  EXPECT_GT(estimate->seconds, 0);
  EXPECT_TRUE(std::isfinite(estimate->seconds));
}

INSTANTIATE_TEST_SUITE_P(, CalibrateOn, testing::ValuesIn(AllExecutorKinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace moepack::runtime
