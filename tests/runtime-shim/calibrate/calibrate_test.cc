#include "runtime-shim/calibrate/calibrate.h"

#include <gtest/gtest.h>

#include "runtime-shim/devices/executors.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

std::string RefusalOf(const std::string& architecture) {
  const auto weights = TinyWeights(architecture);
  ProductWatch watch;
  std::shared_ptr<Executor> cpu = std::move(*OpenExecutor("cpu", {.threads = 1}));
  ObservedExecutor executor(std::move(cpu), watch);
  const auto model = Model::Load(weights, executor);
  EXPECT_TRUE(model);
  watch.SetWeights(*weights);
  const CalibrateInput input{**model, watch, {}, {}, {}};
  const auto opened = Calibrator::Open(input, {}, {});
  EXPECT_FALSE(opened);
  if (opened) return "";
  EXPECT_EQ(opened.error().code, Code::kUnsupported);
  return opened.error().message;
}

TEST(Calibrator, RefusesSeveralResidualStreams) {
  EXPECT_EQ(RefusalOf("deepseek4"),
            "tiny: --calibrate: expected one residual stream, found 2 (deepseek4)");
  EXPECT_EQ(RefusalOf("qwen4exp"),
            "tiny: --calibrate: expected one residual stream, found 2 (qwen4exp)");
}

// Each of the two layers keeps one.
TEST(Calibrator, RefusesStreamsThatLayersKeep) {
  EXPECT_EQ(RefusalOf("kimi-k3"),
            "tiny: --calibrate: expected one residual stream, found 3 (kimi-k3)");
}

}  // namespace
}  // namespace moepack::runtime
