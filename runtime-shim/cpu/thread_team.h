// The threads of a CPU executor. Without work they look for the next for a moment, because waking a
// thread takes longer than a small product, and then sleep, so that other programs have the
// processor. docs/architecture.md says what this gains, and why it is not OpenMP.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "libshard/base/parallel.h"

namespace moepack::runtime {

// The items of one piece of work. Each is taken by one thread.
class SharedItems {
 public:
  explicit SharedItems(uint64_t count) : count_(count) {}
  // Returns the next item in ascending order; no value when all are taken.
  std::optional<uint64_t> Take();
  // After this call no thread gets another item.
  void Drop() { next_ = count_; }

 private:
  const uint64_t count_;
  std::atomic<uint64_t> next_{0};  // never wraps, however often threads ask
};

class ThreadTeam {
 public:
  // `threads` includes the one that calls Run, and is at least 1. They start with the first shared
  // work. If the system does not allow that many, there are fewer.
  explicit ThreadTeam(uint32_t threads) : threads_(threads) {}
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  uint32_t threads() const { return threads_; }

  // Calls `work` on this thread and on others, at most once on each, and returns when all items are
  // done, without waiting for threads that have not woken by then. Throws the first exception of
  // `work`. Only one call may run at a time.
  using Work = std::function<void(SharedItems& items)>;
  void Run(uint64_t items, const Work& work);

 private:
  struct Job {
    const Work& work;
    SharedItems items;
    std::exception_ptr failure = {};  // guarded by the team's mutex
  };

  void Start();
  void Serve();
  void Do(Job& job);

  const uint32_t threads_;
  // Not if threads have to share cores: one that waits would keep another from working.
  const bool waits_awake_ = threads_ <= CoreCount();
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;  // the job that threads may join
  // How many jobs there have been, and the threads that have joined the job and not finished. They
  // change under the mutex, and are atomic so that a thread can look before it sleeps.
  std::atomic<uint64_t> jobs_{0};
  std::atomic<uint32_t> working_{0};
  bool stopping_ = false;
  // declared last, because the threads use the other members until they end
  std::vector<std::jthread> helpers_;
};

}  // namespace moepack::runtime
