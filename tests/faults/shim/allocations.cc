// Allocations that fail. The C library's own functions have second names, which need no dlsym: that
// would allocate. OpenSSL's own allocations are let through: if one of its first is refused,
// OpenSSL 3.0 follows a null pointer to a lock (seen in EVP_MD_fetch).
#include <link.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/faults/shim/decide.h"

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

namespace {
// The address range of libcrypto's code.
uintptr_t crypto_begin = 0, crypto_end = 0;

int NoteCrypto(dl_phdr_info* library, size_t, void*) {
  if (strstr(library->dlpi_name, "libcrypto") == nullptr) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    if (library->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t begin = library->dlpi_addr + library->dlpi_phdr[i].p_vaddr;
    if (crypto_begin == 0) crypto_begin = begin;
    crypto_end = begin + library->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

[[gnu::constructor]] void FindCrypto() { dl_iterate_phdr(NoteCrypto, nullptr); }

bool IsRefused(void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at >= crypto_begin && at < crypto_end) return false;
  if (faults::Decide(faults::kAlloc, "malloc", "") != faults::Fate::kFails) return false;
  errno = ENOMEM;
  return true;
}
}  // namespace

void* malloc(size_t bytes) noexcept {
  return IsRefused(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  return IsRefused(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* data, size_t bytes) noexcept {
  return IsRefused(__builtin_return_address(0)) ? nullptr : __libc_realloc(data, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return IsRefused(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, size_t alignment, size_t bytes) noexcept {
  if (IsRefused(__builtin_return_address(0))) return ENOMEM;
  *data = __libc_memalign(alignment, bytes);
  return *data == nullptr ? ENOMEM : 0;
}

}  // extern "C"
