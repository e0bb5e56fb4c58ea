// The threads of a block as contexts that yield to a scheduler where they wait.
#include <cuda_runtime.h>
#include <ucontext.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

dim3 threadIdx, blockIdx;

namespace emulation {
namespace {

constexpr int kLanes = 32;
constexpr size_t kStackBytes = 64 << 10;

enum class State { kNew, kReady, kAtBlock, kAtWarp, kDone };

struct Thread {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
  ucontext_t start;
  jmp_buf resume;
  bool started = false;
  State state = State::kDone;
  float given[2] = {};  // for shuffles, in turns: none can be two ahead of its warp
  int shuffles = 0;
};

class Block {
 public:
  void Run(int count, const std::function<void()>& body) {
    body_ = &body;
    while (threads_.size() < static_cast<size_t>(count)) threads_.emplace_back();
    count_ = count;
    for (int i = 0; i < count; ++i) Prepare(threads_[i]);
    // Every second pass goes backwards, so that missing barriers show in both orders.
    for (bool forwards = true; Pass(forwards); forwards = !forwards) Release();
  }

  void Wait(State state) {
    Thread& self = threads_[current_];
    self.state = state;
    if (_setjmp(self.resume) == 0) _longjmp(scheduler_, 1);
  }

  float Shuffle(float value, int distance) {
    const int index = current_;
    const int turn = threads_[index].shuffles++ % 2;
    threads_[index].given[turn] = value;
    Wait(State::kAtWarp);
    return threads_[index ^ distance].given[turn];
  }

 private:
  // A context serves every block: making one takes system calls.
  void Prepare(Thread& thread) {
    thread.shuffles = 0;
    thread.state = thread.started ? State::kReady : State::kNew;
    if (std::exchange(thread.started, true)) return;
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.get();
    thread.start.uc_stack.ss_size = kStackBytes;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, Enter, 0);
  }

  static void Enter();

  void Resume(int index) {
    current_ = index;
    threadIdx.x = static_cast<unsigned>(index);
    Thread& thread = threads_[index];
    if (_setjmp(scheduler_) != 0) return;
    if (std::exchange(thread.state, State::kReady) == State::kNew) {
      setcontext(&thread.start);
    } else {
      _longjmp(thread.resume, 1);
    }
  }

  // Runs every thread that can run until it waits. False once all are done.
  bool Pass(bool forwards) {
    bool left = false, ran = false;
    for (int i = 0; i < count_; ++i) {
      const int index = forwards ? i : count_ - 1 - i;
      const State before = threads_[index].state;
      if (before == State::kNew || before == State::kReady) {
        Resume(index);
        ran = true;
      }
      left = left || threads_[index].state != State::kDone;
    }
    if (left && !ran) {
      std::fprintf(stderr, "threads of a block wait for each other at different places\n");
      std::abort();
    }
    return left;
  }

  bool All(int first, int count, State state) const {
    bool any = false;
    for (int i = first; i < first + count; ++i) {
      any = any || threads_[i].state == state;
      if (threads_[i].state != state && threads_[i].state != State::kDone) return false;
    }
    return any;
  }

  void Release() {
    if (All(0, count_, State::kAtBlock)) return SetReady(0, count_);
    for (int first = 0; first < count_; first += kLanes) {
      if (All(first, kLanes, State::kAtWarp)) SetReady(first, kLanes);
    }
  }

  void SetReady(int first, int count) {
    for (int i = first; i < first + count; ++i) {
      if (threads_[i].state != State::kDone) threads_[i].state = State::kReady;
    }
  }

  const std::function<void()>* body_ = nullptr;
  std::vector<Thread> threads_;
  jmp_buf scheduler_;
  int count_ = 0, current_ = 0;
};

Block& TheBlock() {
  static Block block;
  return block;
}

void Block::Enter() {
  Block& block = TheBlock();
  for (;;) {
    (*block.body_)();
    block.Wait(State::kDone);
  }
}

}  // namespace

void WaitForBlock() { TheBlock().Wait(State::kAtBlock); }
float Shuffle(float value, int distance) { return TheBlock().Shuffle(value, distance); }

void RunBlocks(dim3 grid, int threads, const std::function<void()>& body) {
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        TheBlock().Run(threads, body);
      }
    }
  }
}

}  // namespace emulation
