// Counts how far the threads of one step have come.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace moepack {

using ByteReport = std::function<void(uint64_t done, uint64_t total)>;

class ByteProgress {
 public:
  // `report` may be empty.
  ByteProgress(ByteReport report, uint64_t total) : report_(std::move(report)), total_(total) {
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
  const ByteReport report_;
  const uint64_t total_;
  std::mutex mutex_;
  uint64_t done_ = 0;
};

}  // namespace moepack
