// The threads that a CPU executor shares its work with. They sleep while they have no work, unlike
// OpenMP's, whose waiting threads spin by default and take the processor from what else runs, and
// whose policy is read from the environment before a library that is loaded later could set it.
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

namespace moepack::runtime {

// The items of one piece of work; each is taken by one thread.
class SharedItems {
 public:
  explicit SharedItems(uint64_t count) : count_(count) {}
  // The next item in ascending order; none when all are taken.
  std::optional<uint64_t> Take();
  // After this call nobody gets another item.
  void Drop() { next_ = count_; }

 private:
  const uint64_t count_;
  std::atomic<uint64_t> next_{0};  // never wraps, however often threads ask
};

class ThreadTeam {
 public:
  // `threads`: with the one that calls Run, at least 1. They start with the first work that is
  // shared; when the system does not let as many start, there are fewer.
  explicit ThreadTeam(uint32_t threads) : threads_(threads) {}
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  uint32_t threads() const { return threads_; }

  // Calls `work` on this thread and on others, at most once on each, and returns when all items are
  // done: a thread that has not woken by then is not waited for. Throws what `work` threw first.
  // One call at a time.
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
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;    // what may be joined
  uint64_t jobs_ = 0;     // how many there were
  uint32_t working_ = 0;  // threads that have joined the job and not finished
  bool stopping_ = false;
  std::vector<std::jthread> helpers_;  // last: they use the rest until they have ended
};

}  // namespace moepack::runtime
