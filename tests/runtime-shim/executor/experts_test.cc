// The experts of a layer, on every executor, against the reference, and on the CPU the same bits
// however the batch is divided.
#include <cstring>

#include "tests/runtime-shim/executor/conformance.h"
#include "tests/runtime-shim/executor/expert_desk.h"

namespace moepack::runtime {
namespace {

class ExecutorExperts : public EachExecutor {
 protected:
  void CheckShape(const ExpertShape& shape) {
    std::vector<OutputSizes> sizes;
    Check(kMlp, [&](Desk& desk) {
      return DeskExperts(desk, shape).Mix(0, kExpertTokens, &sizes.emplace_back());
    });
    ASSERT_EQ(sizes.size(), 2u);
    ExpectNear(sizes[1].norms, sizes[0].norms, kMlp);
    ExpectNear(sizes[1].peaks, sizes[0].peaks, kMlp);
    EXPECT_GT(sizes[0].norms.size(), size_t{kExpertTokens});
  }
};

TEST_P(ExecutorExperts, MatchTheReferenceInEveryKindOfModel) {
  CheckShape({});
  CheckShape({"f32", 70, true, false, Activation::kClampedSilu});
  CheckShape({"bf16", 33, false, true, Activation::kSilu});
  CheckShape({"q4_0", 160, true, true, Activation::kGelu});
}

TEST_P(ExecutorExperts, MixWithoutTellingSizes) {
  Check(kMlp, [](Desk& desk) { return DeskExperts(desk, {}).Mix(0, kExpertTokens); });
}

INSTANTIATE_TEST_SUITE_P(, ExecutorExperts, ::testing::ValuesIn(AllExecutorKinds()), KindName);

TEST(CpuExperts, GiveTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  std::vector<float> whole;
  for (const uint32_t threads : {1u, 2u, 5u}) {
    auto executor = OpenExecutor("cpu", {.threads = threads});
    ASSERT_TRUE(executor.has_value());
    Desk desk(**executor);
    DeskExperts experts(desk, {});
    const std::vector<float> all = desk.Take(experts.Mix(0, kExpertTokens)).values;
    if (whole.empty()) whole = all;
    EXPECT_EQ(all, whole) << threads;
    for (uint32_t first = 0; first < kExpertTokens; first += 3) {
      const uint32_t count = std::min(3u, kExpertTokens - first);
      const std::vector<float> part = desk.Take(experts.Mix(first, count)).values;
      EXPECT_EQ(std::memcmp(part.data(), &whole[size_t{first} * kExpertWidth],
                            part.size() * sizeof(float)),
                0)
          << first;
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
