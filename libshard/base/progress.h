// How far a step has come: who shows it, and what counts it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace moepack {

// Shows how much is done, in bytes or tokens. Called from one thread at a time; wherever there is
// one, it may be empty.
using OnProgress = std::function<void(uint64_t done, uint64_t total)>;

// Told the amount of each piece that is done; the same is true of it.
using PieceDone = std::function<void(uint64_t amount)>;

// Counts for the threads of a step.
class ProgressCounter {
 public:
  ProgressCounter(OnProgress report, uint64_t total) : report_(std::move(report)), total_(total) {
    if (report_ && total_ > 0) report_(0, total_);
  }

  // May be called from any thread; only one thread at a time calls the report.
  void Add(uint64_t bytes) {
    if (!report_) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    report_(done_, total_);
  }

 private:
  const OnProgress report_;
  const uint64_t total_;
  std::mutex mutex_;
  uint64_t done_ = 0;
};

}  // namespace moepack
