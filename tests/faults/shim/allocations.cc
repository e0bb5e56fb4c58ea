// Allocations that fail. The C library's own functions lie under second names, which need no
// dlsym: that would allocate.
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "tests/faults/shim/decide.h"

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

namespace {
bool IsRefused() {
  if (faults::Decide(faults::kAlloc, "malloc", "") != faults::Fate::kFails) return false;
  errno = ENOMEM;
  return true;
}
}  // namespace

void* malloc(size_t bytes) noexcept { return IsRefused() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) noexcept {
  return IsRefused() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* data, size_t bytes) noexcept {
  return IsRefused() ? nullptr : __libc_realloc(data, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return IsRefused() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, size_t alignment, size_t bytes) noexcept {
  if (IsRefused()) return ENOMEM;
  *data = __libc_memalign(alignment, bytes);
  return *data == nullptr ? ENOMEM : 0;
}

}  // extern "C"
