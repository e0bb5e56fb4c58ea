// Coarse parallelism: threads that stop at the first error, and exceptions that reach the caller.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

#include "libshard/base/result.h"

namespace moepack {

// Keeps the first exception of several threads. An exception that escaped from a thread would end
// the process; the one to expect is out of memory.
class FirstException {
 public:
  // Calls `work` and keeps what it throws; returns false if it threw.
  template <class Work>
  bool Catch(const Work& work) noexcept {
    try {
      work();
      return true;
    } catch (...) {
      Keep(std::current_exception());
      return false;
    }
  }
  void Keep(std::exception_ptr exception) noexcept;
  // Throws the kept exception, if any. REQUIRES: the threads have ended.
  void Rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

// Runs `work` on up to `threads` threads at once, this one included: on fewer if the system lets
// fewer start, or if this one returns before the others begin. The others are kept for the next
// call. `stop` is called when one of them throws and has to make the others return. When all have
// ended, the exception is thrown here. REQUIRES: `stop` throws nothing.
void RunOnThreads(size_t threads, const std::function<void()>& work,
                  const std::function<void()>& stop);

// Runs work(0) ... work(count - 1) on up to `jobs` threads, each index once, in ascending order of
// start. The first error stops new work from starting and is returned (if several fail, the lowest
// index wins). An exception stops it too and is thrown here. `jobs` 0 means one per core.
Status ParallelFor(size_t count, size_t jobs, const std::function<Status(size_t)>& work);

// The number of usable cores, at least 1.
size_t CoreCount();
// `jobs`, or one per core if it is 0.
size_t ThreadsOf(size_t jobs);

// The number of threads for work that reads, hashes and writes: `jobs`, or twice the number of
// cores if it is 0, so that one thread hashes while another waits for the disk.
size_t ThreadsForFiles(size_t jobs);

// Set by the tool's signal handler; long loops check it between pieces of work and return
// kInterrupted.
std::atomic<bool>& InterruptRequested();
Status CheckInterrupt();
// Sleeps; stops early, with kInterrupted, if an interrupt is requested before or meanwhile.
Status WaitFor(std::chrono::duration<double> time);

// Work on pieces of rows.

// Calls work(first, end) for pieces of at most `size` of `rows` rows, on up to `jobs` threads (0:
// one per core). Where a piece ends does not depend on `jobs`. Returns the error of the first piece
// that has one. Throws what `work` and threads throw.
template <class Work>
Status TryPieces(size_t rows, size_t size, size_t jobs, const Work& work) {
  const size_t pieces = (rows + size - 1) / size;
  return ParallelFor(pieces, jobs, [&](size_t piece) -> Status {
    return work(piece * size, std::min((piece + 1) * size, rows));
  });
}

// The same for work that has no errors.
template <class Work>
void ForPieces(size_t rows, size_t size, size_t jobs, const Work& work) {
  const Status done = TryPieces(rows, size, jobs, [&](size_t first, size_t end) -> Status {
    work(first, end);
    return Ok();
  });
  static_cast<void>(done);
}

// How many rows of this many values are enough work for another thread.
inline size_t RowsWorthAThread(size_t columns) {
  constexpr size_t kValues = 1 << 16;
  return std::max<size_t>(1, kValues / columns);
}

}  // namespace moepack
