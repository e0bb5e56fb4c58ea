#include "manifest/registry/transfer/fetch_pass.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"

namespace moepack::registry {
namespace {

constexpr uint64_t kHashStep = 8u << 20;    // bytes of one turn
constexpr size_t kHashBuffer = 256u << 10;  // stays in the cache between reading and hashing

// Threads take whatever there is to do: a piece to fetch, a stretch to hash, cells to keep. The
// last two are each done by only one thread at a time. So it works with any number of threads.
class Pass {
 public:
  Pass(const ByteSource& from, PartFile& part, PieceBuffers& buffers, const FetchOptions& options)
      : from_(from),
        part_(part),
        buffers_(buffers),
        options_(options),
        size_(part.cells().size()),
        cell_bytes_(part.cells().cell_bytes()),
        connections_(std::max<size_t>(1, options.connections)),
        there_(part.cells().done_bytes()),
        left_by_others_(there_),
        hash_buffer_(kHashBuffer) {
    for (uint64_t cell = 0; cell < part.cells().count(); ++cell)
      resumed_.push_back(part.cells().Has(cell));
    Advance();
  }

  Result<PassOutcome> Run() {
    if (options_.progress) options_.progress(there_, from_.size());
    const size_t threads = connections_ + (resumed_.size() > 1 ? 2 : 1);
    RunOnThreads(
        threads, [&] { Work(); }, [&] { Stop(); });
    if (!error_) return PassOutcome{sha256_.Finish(), fetched_};
    // The first error is the one to report; cells that cannot be kept will be fetched again.
    if (!complete_.empty() && part_.IsOurs()) (void)part_.Keep(complete_).has_value();
    return *std::move(error_);
  }

 private:
  enum class Kind { kFetch, kHash, kKeep };
  struct Job {
    Kind kind;
    uint64_t offset = 0, bytes = 0;
    std::vector<uint64_t> cells = {};
  };

  void Work() {
    while (const auto job = Next()) {
      Status done = job->kind == Kind::kFetch  ? Fetch(*job)
                    : job->kind == Kind::kHash ? Hash(*job)
                                               : Keep(*job);
      if (!done) Fail(std::move(done).error());
    }
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  void Fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    stopped_ = true;
    changed_.notify_all();
  }

  // Waits for something to do; no value when the pass is over.
  std::optional<Job> Next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (stopped_) return std::nullopt;
      if (hashed_ == size_ && complete_.empty() && !keeping_) return std::nullopt;
      if (auto job = Choose()) return job;
      changed_.wait(lock);
    }
  }

  std::optional<Job> Choose() {
    if (!keeping_ && !complete_.empty()) {
      keeping_ = true;
      return Job{Kind::kKeep, 0, 0, std::exchange(complete_, {})};
    }
    if (!hashing_ && hashed_ < ready_) {
      hashing_ = true;
      const uint64_t end = std::min({ready_, CellEnd(hashed_), hashed_ + kHashStep});
      return Job{Kind::kHash, hashed_, end - hashed_};
    }
    return ChoosePiece();
  }

  std::optional<Job> ChoosePiece() {
    if (fetching_ == connections_) return std::nullopt;
    while (next_ < size_ && next_ % cell_bytes_ == 0 && resumed_[next_ / cell_bytes_])
      next_ = CellEnd(next_);
    if (next_ == size_) return std::nullopt;
    if (next_ % cell_bytes_ == 0) {
      if (begun_ > connections_) return std::nullopt;
      ++begun_;
    }
    const uint64_t bytes = std::min<uint64_t>(buffers_.bytes(), CellEnd(next_) - next_);
    ++fetching_;
    return Job{Kind::kFetch, std::exchange(next_, next_ + bytes), bytes};
  }

  Status Fetch(const Job& job) {
    SHARD_CHECK(CheckInterrupt());
    const auto lease = buffers_.Take();
    if (!lease) return Error{Code::kInterrupted, "stopped after an error of another file"};
    const std::span<std::byte> bytes = lease->bytes().first(job.bytes);
    SHARD_CHECK(from_.ReadAt(job.offset, bytes));
    SHARD_CHECK(part_.Write(job.offset, bytes));
    const std::lock_guard lock(mutex_);
    --fetching_;
    fetched_ += job.bytes;
    there_ += job.bytes;
    ahead_.emplace(job.offset, job.offset + job.bytes);
    Count(job.offset / cell_bytes_, job.bytes);
    Advance();
    if (options_.progress) options_.progress(there_, from_.size());
    changed_.notify_all();
    return Ok();
  }

  // A file of one cell is complete at the end or fetched again, so nothing is noted for it.
  void Count(uint64_t cell, uint64_t bytes) {
    uint64_t& written = written_[cell];
    written += bytes;
    if (written < part_.cells().BytesOf(cell)) return;
    written_.erase(cell);
    if (resumed_.size() > 1) complete_.push_back(cell);
  }

  // Moves `ready_` over what has arrived and what was already there.
  void Advance() {
    while (ready_ < size_) {
      const auto first = ahead_.begin();
      if (ready_ % cell_bytes_ == 0 && resumed_[ready_ / cell_bytes_]) {
        ready_ = CellEnd(ready_);
      } else if (first != ahead_.end() && first->first == ready_) {
        ready_ = first->second;
        ahead_.erase(first);
      } else {
        return;
      }
    }
  }

  Status Hash(const Job& job) {
    for (uint64_t at = 0; at < job.bytes; at += kHashBuffer) {
      SHARD_CHECK(CheckInterrupt());
      const auto bytes =
          hash_buffer_.bytes().first(std::min<uint64_t>(kHashBuffer, job.bytes - at));
      SHARD_CHECK(part_.Read(job.offset + at, bytes));
      sha256_.Update(bytes);
    }
    const std::lock_guard lock(mutex_);
    hashing_ = false;
    hashed_ += job.bytes;
    if (resumed_[job.offset / cell_bytes_]) {
      rehashed_ += job.bytes;
      if (options_.rehashed) options_.rehashed(rehashed_, left_by_others_);
    }
    changed_.notify_all();
    return Ok();
  }

  Status Keep(const Job& job) {
    SHARD_CHECK(part_.Keep(job.cells));
    const std::lock_guard lock(mutex_);
    keeping_ = false;
    begun_ -= job.cells.size();
    changed_.notify_all();
    return Ok();
  }

  uint64_t CellEnd(uint64_t offset) const {
    return offset + std::min(cell_bytes_ - offset % cell_bytes_, size_ - offset);
  }

  const ByteSource& from_;
  PartFile& part_;
  PieceBuffers& buffers_;
  const FetchOptions& options_;
  const uint64_t size_, cell_bytes_;
  const size_t connections_;
  std::vector<bool> resumed_;  // cells that were already there

  std::mutex mutex_;  // guards everything below except what a job that runs alone uses
  std::condition_variable changed_;
  bool stopped_ = false, hashing_ = false, keeping_ = false;
  std::optional<Error> error_;
  size_t fetching_ = 0, begun_ = 0;       // pieces in transit; cells begun and not kept
  uint64_t next_ = 0;                     // offset of the next piece to fetch
  std::map<uint64_t, uint64_t> ahead_;    // begin and end of pieces after a gap
  std::map<uint64_t, uint64_t> written_;  // bytes of incomplete cells
  std::vector<uint64_t> complete_;        // cells that are complete but not kept
  uint64_t ready_ = 0, hashed_ = 0;       // without a gap from the beginning
  uint64_t fetched_ = 0, there_, rehashed_ = 0;
  const uint64_t left_by_others_;
  PageBuffer hash_buffer_;
  Sha256 sha256_;
};

}  // namespace

Result<PassOutcome> FetchMissing(const ByteSource& from, PartFile& part, PieceBuffers& buffers,
                                 const FetchOptions& options) {
  return Pass(from, part, buffers, options).Run();
}

}  // namespace moepack::registry
