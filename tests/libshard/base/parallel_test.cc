#include "libshard/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <latch>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace moepack {
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

TEST(ParallelFor, ReturnsTheErrorAndStartsNoMoreWork) {
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

TEST(ParallelFor, ReturnsTheErrorOfTheLowestFailingIndex) {
  const Status status = ParallelFor(8, 1, [](size_t i) -> Status {
    return Error{Code::kIo, std::to_string(i)};
  });
  EXPECT_EQ(status.error().message, "0");
}

TEST(ParallelFor, ACountOfZeroCallsNothing) {
  const Status done = ParallelFor(0, 4, [](size_t) -> Status {
    return Error{Code::kIo, "called"};
  });
  EXPECT_EQ(done ? "" : done.error().message, "");
}

TEST(ParallelFor, AnExceptionOfAnyThreadReachesTheCaller) {
  constexpr auto kTurn = std::chrono::milliseconds(1);
  for (const size_t jobs : {1u, 2u, 8u}) {
    std::atomic<size_t> started{0};
    EXPECT_THROW(static_cast<void>(ParallelFor(100'000, jobs,
                                               [&](size_t i) {
                                                 ++started;
                                                 if (i == 10) throw std::bad_alloc();
                                                 // So that the thread that throws gets its turn
                                                 // before the others have done everything.
                                                 if (i > 10) std::this_thread::sleep_for(kTurn);
                                                 return Ok();
                                               })),
                 std::bad_alloc);
    EXPECT_LT(started.load(), 100'000u);
  }
}

TEST(RunOnThreads, StopsTheOthersWhenOneThrows) {
  for (const bool caller : {true, false}) {
    const std::thread::id me = std::this_thread::get_id();
    std::atomic<bool> stopped{false};
    const auto work = [&] {
      if ((std::this_thread::get_id() == me) == caller) throw std::bad_alloc();
      while (!stopped) std::this_thread::yield();
    };
    EXPECT_THROW(RunOnThreads(4, work, [&] { stopped = true; }), std::bad_alloc);
  }
}

// If the system has no room for more threads, the existing ones do the work. A process of its own
// starts without the threads that other tests have left.
TEST(RunOnThreads, ContinuesWithFewerThreadsWhenTheSystemRefusesMore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto count = [] {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(2);
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3);  // root has no such limit
    std::atomic<size_t> sum{0};
    const Status status = ParallelFor(100, 64, [&](size_t i) {
      sum += i;
      return Ok();
    });
    _exit(status && sum == 4950 ? 0 : 1);
  };
  EXPECT_EXIT(count(), testing::ExitedWithCode(0), "");
}

TEST(RunOnThreads, UsesTheSameThreadsAgain) {
  const auto run = [] {
    std::latch all(4);  // so that every thread has a part
    RunOnThreads(
        4, [&] { all.arrive_and_wait(); }, [] {});
    const std::filesystem::directory_iterator threads("/proc/self/task");
    return std::distance(begin(threads), end(threads));
  };
  const auto first = run();
  EXPECT_GE(first, 4);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(run(), first);
}

TEST(RunOnThreads, WorksInsideItself) {
  std::atomic<size_t> sum{0};
  const auto inner = [&](size_t) {
    return ParallelFor(100, 4, [&](size_t i) {
      sum += i;
      return Ok();
    });
  };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ParallelFor(4, 4, inner));
  EXPECT_EQ(sum, 100u * 4 * 4950);
}

TEST(RunOnThreads, LetsTheProcessExitWhileOthersWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    std::latch working(3), never(1);
    std::thread([&] {
      RunOnThreads(
          2,
          [&] {
            working.count_down();
            never.wait();
          },
          [] {});
    }).detach();
    working.arrive_and_wait();
    std::exit(0);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

TEST(RunOnThreads, WorksInAForkOfAProcessThatHasThreads) {
  const auto sum_of = [](size_t count) {
    std::atomic<size_t> sum{0};
    const Status status = ParallelFor(count, 4, [&](size_t i) {
      sum += i;
      return Ok();
    });
    return status ? sum.load() : 0;
  };
  EXPECT_EQ(sum_of(100), 4950u);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(sum_of(100) == 4950 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Interrupt, IsReportedWhileTheFlagIsSet) {
  EXPECT_TRUE(CheckInterrupt());
  InterruptRequested() = true;
  EXPECT_EQ(CheckInterrupt().error().code, Code::kInterrupted);
  InterruptRequested() = false;
}

}  // namespace
}  // namespace moepack
