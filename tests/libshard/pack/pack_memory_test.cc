// Out of memory while packing: whichever thread and allocation it hits, the run and all its threads
// end, and the caller is told.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <optional>

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "libshard/pack/pack.h"
#include "libshard/plan/plan.h"
#include "tests/libshard/support/failing_new.h"

namespace moepack {
namespace {

class PackMemory : public testing::Test {
 protected:
  void SetUp() override {
    auto model = MoeModel::Open(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe");
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    PlanOptions options;
    options.groups = 3;
    const auto plan = MakePlan(*model_, options);
    ASSERT_TRUE(plan) << plan.error().message;
    auto files = SliceSafetensors(*model_, *plan, {});
    ASSERT_TRUE(files) << files.error().message;
    files_ = *std::move(files);
  }

  Result<std::vector<FileDigests>> Digests(const PackOptions& options) const {
    return DigestOutputs(model_->checkpoint().files(), files_, options);
  }

  std::optional<MoeModel> model_;
  std::vector<OutputFile> files_;
};

TEST_F(PackMemory, SurvivesAFailedAllocationInAnyThread) {
  size_t thrown = 0;
  for (const size_t jobs : {1u, 4u}) {
    PackOptions options;
    options.jobs = jobs;
    for (size_t n = 0; n < 3000; n += 1 + n / 16) {
      const FailingNew failing(n, jobs == 4 ? n % 5 : 0);
      try {
        EXPECT_TRUE(Digests(options) || failing.failed());
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
    }
  }
  EXPECT_GT(thrown, 50u);
}

TEST_F(PackMemory, TheOthersDoNotWaitForAThreadThatFailed) {
  for (const size_t after : {0u, 1u, 3u, 7u}) {
    PackOptions options;
    options.jobs = 6;
    size_t calls = 0;
    options.progress = [&](uint64_t, uint64_t) {
      if (calls++ == after) throw std::bad_alloc();
    };
    EXPECT_THROW(static_cast<void>(Digests(options)), std::bad_alloc);
  }
}

// A worker that is stuck, for example in a read from a lost network, does not keep the others from
// ending.
TEST_F(PackMemory, AnInterruptEndsWorkersThatWaitForTheirTurn) {
  PackOptions options;
  options.jobs = 4;
  size_t calls = 0;
  options.progress = [&](uint64_t, uint64_t) {
    if (++calls == 3) InterruptRequested() = true;
  };
  const auto result = Digests(options);
  InterruptRequested() = false;
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInterrupted);
}

}  // namespace
}  // namespace moepack
