#include "libshard/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace moepack {

size_t CoreCount() {
  // A container or taskset may allow fewer cores than the machine has.
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0) {
    return static_cast<size_t>(CPU_COUNT(&cores));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

size_t ThreadsForFiles(size_t jobs) { return jobs == 0 ? 2 * CoreCount() : jobs; }

std::atomic<bool>& InterruptRequested() {
  static std::atomic<bool> requested{false};
  return requested;
}

Status CheckInterrupt() {
  if (!InterruptRequested().load(std::memory_order_relaxed)) return Ok();
  return Error{Code::kInterrupted, "interrupted"};
}

Status WaitFor(std::chrono::duration<double> time) {
  // Short steps, so that an interrupt is noticed at once.
  constexpr std::chrono::duration<double> kStep{0.05};
  const auto end = std::chrono::steady_clock::now() + time;
  while (true) {
    SHARD_CHECK(CheckInterrupt());
    const std::chrono::duration<double> left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return Ok();
    std::this_thread::sleep_for(std::min(left, kStep));
  }
}

void FirstException::Keep(std::exception_ptr exception) noexcept {
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = std::move(exception);
}

void RunOnThreads(size_t threads, const std::function<void()>& work,
                  const std::function<void()>& stop) {
  FirstException exception;
  const auto run = [&] {
    if (!exception.Catch(work)) stop();
  };
  {
    std::vector<std::jthread> workers;
    try {
      for (size_t i = 1; i < threads; ++i) workers.emplace_back(run);
    } catch (const std::system_error&) {  // no more threads: fewer do the work
    } catch (const std::bad_alloc&) {
    }
    run();
  }
  exception.Rethrow();
}

Status ParallelFor(size_t count, size_t jobs, const std::function<Status(size_t)>& work) {
  const size_t threads = std::min(count, jobs == 0 ? CoreCount() : jobs);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::optional<Error> first;
  size_t first_index = count;

  const auto run = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      // Indexes are taken in ascending order, so the lowest one that fails has always been started.
      const size_t index = next.fetch_add(1);
      if (index >= count) return;
      Status status = work(index);
      if (status) continue;
      const std::lock_guard lock(mutex);
      failed = true;
      if (index < first_index) {
        first_index = index;
        first = std::move(status).error();
      }
    }
  };

  RunOnThreads(threads, run, [&] { failed = true; });
  if (first) return *std::move(first);
  return Ok();
}

}  // namespace moepack
