#include "runtime-shim/cpu/thread_team.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace moepack::runtime {
namespace {

// Returns when `ready` is true, or after about the time that it takes to wake a thread.
template <class Ready>
void WaitAwake(const Ready& ready) {
  constexpr auto kLongest = std::chrono::microseconds(50);
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (!ready() && std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

std::optional<uint64_t> SharedItems::Take() {
  const uint64_t item = next_.fetch_add(1, std::memory_order_relaxed);
  if (item >= count_) return std::nullopt;
  return item;
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
}

void ThreadTeam::Start() {
  try {
    while (helpers_.size() + 1 < threads_) helpers_.emplace_back([this] { Serve(); });
  } catch (const std::system_error&) {
    // The system limits threads; those that have started do the work.
  }
}

void ThreadTeam::Do(Job& job) {
  try {
    job.work(job.items);
  } catch (...) {
    job.items.Drop();
    const std::lock_guard lock(mutex_);
    if (!job.failure) job.failure = std::current_exception();
  }
}

void ThreadTeam::Serve() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    if (waits_awake_) {
      lock.unlock();
      WaitAwake([&] { return jobs_.load(std::memory_order_relaxed) != seen; });
      lock.lock();
    }
    wake_.wait(lock, [&] { return stopping_ || (job_ != nullptr && jobs_ != seen); });
    if (stopping_) return;
    seen = jobs_;
    Job& job = *job_;
    ++working_;
    lock.unlock();
    Do(job);
    lock.lock();
    if (--working_ == 0) done_.notify_one();
  }
}

void ThreadTeam::Run(uint64_t items, const Work& work) {
  if (threads_ > 1 && helpers_.empty()) Start();
  Job job{work, SharedItems(items)};
  const uint64_t helpful = std::min<uint64_t>(helpers_.size(), items > 0 ? items - 1 : 0);
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++jobs_;
  }
  for (uint64_t i = 0; i < helpful; ++i) wake_.notify_one();
  Do(job);
  {
    const std::lock_guard lock(mutex_);
    job_ = nullptr;
  }
  if (waits_awake_) WaitAwake([&] { return working_.load(std::memory_order_relaxed) == 0; });
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return working_ == 0; });
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace moepack::runtime
