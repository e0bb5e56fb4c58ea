#include "libshard/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

namespace shard {
namespace {

TEST(ParallelFor, DoesEveryIndexOnceWithAnyNumberOfJobs) {
  for (const size_t jobs : {0u, 1u, 2u, 8u}) {
    std::vector<std::atomic<int>> seen(1000);
    ASSERT_TRUE(ParallelFor(seen.size(), jobs, [&](size_t i) {
      ++seen[i];
      return Ok();
    }));
    for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
  }
}

TEST(ParallelFor, ReturnsTheErrorAndStopsStarting) {
  std::atomic<size_t> started{0};
  const Status status = ParallelFor(100'000, 2, [&](size_t i) -> Status {
    ++started;
    if (i == 10) return Error{Code::kIo, "ten"};
    return Ok();
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "ten");
  EXPECT_LT(started.load(), 100'000u);
}

TEST(ParallelFor, TheLowestFailingIndexWins) {
  const Status status = ParallelFor(8, 1, [](size_t i) -> Status {
    return Error{Code::kIo, std::to_string(i)};
  });
  EXPECT_EQ(status.error().message, "0");
}

TEST(ParallelFor, HasNothingToDoForNothing) {
  EXPECT_TRUE(ParallelFor(0, 4, [](size_t) -> Status { return Error{Code::kIo, "called"}; }));
}

TEST(Interrupt, IsSeenWhileTheFlagIsSet) {
  EXPECT_TRUE(CheckInterrupt());
  InterruptRequested() = true;
  EXPECT_EQ(CheckInterrupt().error().code, Code::kInterrupted);
  InterruptRequested() = false;
}

}  // namespace
}  // namespace shard
