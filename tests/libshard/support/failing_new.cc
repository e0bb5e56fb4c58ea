#include "tests/libshard/support/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace moepack {
namespace {

// Counts down to the allocations that fail: those from 0 to -g_more.
constexpr long kNever = 1L << 60;
std::atomic<long> g_left{kNever};
std::atomic<long> g_more{0};

bool FailsNow() {
  const long left = g_left.fetch_sub(1, std::memory_order_relaxed);
  return left <= 0 && left >= -g_more.load(std::memory_order_relaxed);
}

void* Allocate(size_t bytes) {
  void* const memory = FailsNow() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

FailingNew::FailingNew(size_t n, size_t more) {
  g_more = static_cast<long>(more);
  g_left = static_cast<long>(n);
}

FailingNew::~FailingNew() { g_left = kNever; }

bool FailingNew::failed() const { return g_left.load() < 0; }

}  // namespace moepack

// Arrays come here too; over-aligned forms do not. The form without exceptions is written out:
// AddressSanitizer has one of its own.
void* operator new(size_t bytes) { return moepack::Allocate(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return moepack::FailsNow() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
