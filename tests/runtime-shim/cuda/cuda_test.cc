// The CUDA executor of this build: its errors if it is missing or if there is no GPU. Its
// operations are tested in executor_conformance_test.cc, and in cuda_emulated/ without a GPU.
#include "runtime-shim/cuda/cuda.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime-shim/devices/executors.h"

namespace moepack::runtime {
namespace {

const ExecutorKind& CudaKind() {
  for (const ExecutorKind& kind : AllExecutorKinds()) {
    if (std::string(kind.name) == "cuda") return kind;
  }
  ADD_FAILURE() << "no row for cuda";
  return AllExecutorKinds().front();
}

TEST(Cuda, SaysWhyABuildLacksIt) {
  if (CudaKind().missing == nullptr) GTEST_SKIP() << "this build has CUDA";
  const auto executor = OpenExecutor("cuda", {});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnsupported);
  EXPECT_NE(executor.error().message.find("executor cuda: this build does not have it: "),
            std::string::npos);
  EXPECT_EQ(CudaDevices(), "");
}

TEST(Cuda, SaysThatThereIsNoDevice) {
  if (CudaKind().missing != nullptr) GTEST_SKIP() << CudaKind().missing;
  if (!CudaDevices().empty()) GTEST_SKIP() << "there is a device";
  const auto executor = OpenExecutor("cuda", {});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_EQ(executor.error().message.find("cuda: no device can be used: "), 0u)
      << executor.error().message;
}

TEST(Cuda, CountsDevices) {
  if (CudaKind().missing != nullptr) GTEST_SKIP() << CudaKind().missing;
  if (CudaDevices().empty()) GTEST_SKIP() << "there is no device";
  const auto executor = OpenExecutor("cuda", {.device = 1000});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_EQ(executor.error().message.find("cuda: device 1000: expected one of "), 0u);
}

}  // namespace
}  // namespace moepack::runtime
