#include "libshard/base/parallel.h"

#include <openssl/crypto.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace moepack {
namespace {

using Work = std::function<void()>;

// One call of RunOnThreads: the helpers that have begun and not ended. Guarded by the mutex of
// SpareThreads.
struct Crowd {
  const Work& work;  // throws nothing
  size_t working = 0;
  std::condition_variable ended = {};
};

// Threads that have ended their work and sleep until there is more: starting a thread takes longer
// than many a product of matrices.
class SpareThreads {
 public:
  // Those of this process: a fork has none of its parent's. Never destroyed, because threads may
  // still use it when the process exits.
  static SpareThreads& Get() {
    static std::atomic<SpareThreads*> last{nullptr};
    static const Closing closing{last};
    SpareThreads* found = last;
    if (found != nullptr && found->process_ == getpid()) return *found;
    SpareThreads* const own = new SpareThreads;
    if (last.compare_exchange_strong(found, own)) return *own;
    delete own;  // another thread was faster
    return *found;
  }

  // Has `count` spare threads do the crowd's work, or new ones; fewer if the system has no room for
  // more.
  void Begin(size_t count, Crowd& crowd) {
    try {
      for (size_t i = 0; i < count; ++i) {
        {
          const std::lock_guard lock(mutex_);
          if (stopping_) return;
          if (spare_ == waiting_.size()) StartOne();
          waiting_.push_back(&crowd);
        }
        wake_.notify_one();
      }
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
  }

  // Returns when the crowd's helpers have ended. Those that have not begun do not begin.
  void End(Crowd& crowd) {
    std::unique_lock lock(mutex_);
    std::erase(waiting_, &crowd);
    crowd.ended.wait(lock, [&] { return crowd.working == 0; });
  }

 private:
  struct Closing {
    // OpenSSL frees what it has of a thread when the thread ends, unless its own cleanup has run.
    // So the cleanup is registered here, before this object, and runs after it. Without an option
    // the function would register nothing.
    explicit Closing(const std::atomic<SpareThreads*>& threads) : last(threads) {
      OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, nullptr);
    }
    const std::atomic<SpareThreads*>& last;
    ~Closing() {
      if (last != nullptr) last.load()->Close();
    }
  };

  SpareThreads() = default;

  // Ends the threads, for a library that is unloaded. An exit does not wait for those that still
  // work for other threads of the program.
  void Close() {
    if (process_ != getpid()) return;
    {
      const std::lock_guard lock(mutex_);
      if (spare_ != threads_.size()) return;
      stopping_ = true;
    }
    wake_.notify_all();
    threads_.clear();
  }

  // REQUIRES: mutex_ is held.
  void StartOne() {
    threads_.emplace_back([this] { Serve(); });
    ++spare_;
  }

  void Serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      Crowd& crowd = *waiting_.front();
      waiting_.pop_front();
      --spare_;
      ++crowd.working;
      lock.unlock();
      crowd.work();
      lock.lock();
      ++spare_;
      if (--crowd.working == 0) crowd.ended.notify_one();
    }
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Crowd*> waiting_;  // one entry for each helper that has not begun
  size_t spare_ = 0;           // threads without work, at least as many as `waiting_`
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace

size_t CoreCount() {
  // A container or taskset may allow fewer cores than the machine has.
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0) {
    return static_cast<size_t>(CPU_COUNT(&cores));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

size_t ThreadsOf(size_t jobs) { return jobs == 0 ? CoreCount() : jobs; }

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
  const Work run = [&]() noexcept {
    if (!exception.Catch(work)) stop();
  };
  if (threads <= 1) {
    run();
  } else {
    Crowd crowd{run};
    SpareThreads& spare = SpareThreads::Get();
    spare.Begin(threads - 1, crowd);
    run();
    spare.End(crowd);
  }
  exception.Rethrow();
}

Status ParallelFor(size_t count, size_t jobs, const std::function<Status(size_t)>& work) {
  const size_t threads = count <= 1 ? count : std::min(count, ThreadsOf(jobs));
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
