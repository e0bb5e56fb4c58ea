#include "runtime-shim/cpu/thread_team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace moepack::runtime {
namespace {

// Processor time of all threads of this process.
double ProcessSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ThreadTeam, ProcessesEveryItemOnce) {
  ThreadTeam team(4);
  for (uint64_t items = 0; items < 300; ++items) {
    std::vector<std::atomic<int>> done(items);
    team.Run(items, [&](SharedItems& shared) {
      while (const auto item = shared.Take()) ++done[*item];
    });
    EXPECT_TRUE(std::all_of(done.begin(), done.end(), [](const auto& times) { return times == 1; }))
        << items;
  }
}

TEST(ThreadTeam, RunsOnASingleThread) {
  ThreadTeam team(1);
  const auto self = std::this_thread::get_id();
  uint64_t sum = 0;
  team.Run(10, [&](SharedItems& items) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    while (const auto item = items.Take()) sum += *item;
  });
  EXPECT_EQ(sum, 45u);
}

TEST(ThreadTeam, SharesTheWorkAmongThreads) {
  ThreadTeam team(2);
  std::atomic<int> present{0};
  team.Run(2, [&](SharedItems& items) {
    while (items.Take()) {
      ++present;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (present < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
  });
  EXPECT_EQ(present, 2);
}

// The original problem: on a busy machine OpenMP's threads, which spin while they wait, made eval
// and check five to ten times slower.
TEST(ThreadTeam, WaitingThreadsSleep) {
  ThreadTeam team(8);
  std::atomic<uint64_t> sum{0};
  team.Run(100, [&](SharedItems& items) {
    while (const auto item = items.Take()) sum += *item;
  });
  const double before = ProcessSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(ProcessSeconds() - before, 0.1);
  EXPECT_EQ(sum, 4950u);
}

TEST(ThreadTeam, PassesExceptionsToTheCaller) {
  ThreadTeam team(3);
  const auto fail = [&](uint64_t at) {
    team.Run(1000, [at](SharedItems& items) {
      while (const auto item = items.Take()) {
        if (*item == at) throw std::bad_alloc();
      }
    });
  };
  for (const uint64_t at : {0, 1, 500, 999}) EXPECT_THROW(fail(at), std::bad_alloc) << at;
  EXPECT_NO_THROW(fail(1000));
}

TEST(ThreadTeam, EveryThreadMayThrow) {
  ThreadTeam team(4);
  for (int i = 0; i < 200; ++i) {
    EXPECT_THROW(team.Run(4, [](SharedItems&) { throw std::runtime_error("all"); }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace moepack::runtime
