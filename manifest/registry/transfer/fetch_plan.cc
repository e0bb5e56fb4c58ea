#include "manifest/registry/transfer/fetch_plan.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "libshard/base/parallel.h"
#include "manifest/registry/transfer/free_space.h"
#include "manifest/registry/transfer/part_file.h"

namespace moepack::registry {
namespace {

constexpr uint64_t kSpareShare = 100;  // a hundredth, for what the file system itself needs

// Adds up the progress that the files report individually.
class SharedProgress {
 public:
  SharedProgress(OnProgress report, size_t files, uint64_t total)
      : report_(std::move(report)), files_(files), total_(total) {}

  void Set(size_t file, uint64_t done, uint64_t of) {
    if (!report_) return;
    const std::lock_guard lock(mutex_);
    done_ += done - files_[file].done;
    total_ += of - files_[file].of;
    files_[file] = {done, of};
    report_(done_, total_);
  }
  // For files whose total is known before they begin.
  void Expect(size_t file, uint64_t of) { files_[file].of = of; }

 private:
  struct Of {
    uint64_t done = 0, of = 0;
  };
  const OnProgress report_;
  std::mutex mutex_;
  std::vector<Of> files_;
  uint64_t done_ = 0, total_;
};

uint64_t SumOfSizes(const std::vector<FetchItem>& items) {
  return std::accumulate(
      items.begin(), items.end(), uint64_t{0},
      [](uint64_t sum, const FetchItem& item) { return sum + item.stated.size; });
}

class PlanRun {
 public:
  PlanRun(const std::vector<FetchItem>& items, const InsideDirectory& directory,
          const FetchOptions& options)
      : items_(items),
        directory_(directory),
        options_(options),
        buffers_(options.connections, options.piece_bytes),
        progress_(options.progress, items.size(), SumOfSizes(items)),
        rehashed_(options.rehashed, items.size(), 0),
        reports_(items.size()) {
    for (size_t i = 0; i < items.size(); ++i) progress_.Expect(i, items[i].stated.size);
  }

  Result<std::vector<FetchReport>> Run() {
    std::vector<size_t> order(items_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return items_[a].stated.size > items_[b].stated.size;
    });
    const Status done =
        ParallelFor(order.size(), std::max<size_t>(1, options_.files), [&](size_t i) -> Status {
          Status one = FetchOne(order[i]);
          if (!one) NoteError(one.error());
          return one;
        });
    if (first_) return *std::move(first_);  // others were stopped because of it
    if (!done) return done.error();
    return std::move(reports_);
  }

 private:
  Status FetchOne(size_t i) {
    SHARD_CHECK(CheckInterrupt());
    const FetchItem& item = items_[i];
    FetchOptions options = options_;
    options.progress = [this, i](uint64_t there, uint64_t of) { progress_.Set(i, there, of); };
    options.rehashed = [this, i](uint64_t done, uint64_t of) { rehashed_.Set(i, done, of); };
    SHARD_TRY(const ByteSourcePtr from, item.open());
    SHARD_TRY(reports_[i], FetchFile(*from, item.stated, directory_, item.name, options, buffers_));
    return Ok();
  }

  void NoteError(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = error;
    buffers_.Stop();
  }

  const std::vector<FetchItem>& items_;
  const InsideDirectory& directory_;
  const FetchOptions& options_;
  PieceBuffers buffers_;
  SharedProgress progress_, rehashed_;
  std::vector<FetchReport> reports_;
  std::mutex mutex_;
  std::optional<Error> first_;
};

}  // namespace

Status CheckRoomFor(const std::vector<FetchItem>& items, const InsideDirectory& directory) {
  uint64_t there = 0, missing = 0;
  for (const FetchItem& item : items) {
    const uint64_t taken = std::min(AllocatedBytes(directory, item.name), item.stated.size);
    there += taken;
    missing += item.stated.size - taken;
  }
  return CheckFreeSpace(directory.path(), missing + missing / kSpareShare, there);
}

Result<std::vector<FetchReport>> FetchFiles(const std::vector<FetchItem>& items,
                                            const InsideDirectory& directory,
                                            const FetchOptions& options) {
  SHARD_CHECK(CheckRoomFor(items, directory));
  return PlanRun(items, directory, options).Run();
}

}  // namespace moepack::registry
