// Keeps freed memory in the process for as long as a refit or a calibration runs.
#pragma once

#include <malloc.h>

#include <limits>

namespace moepack::runtime {

// Their matrices come and go. If the system got the pages back each time and had to clear new ones,
// that took more than half of the processor time of a calibration (one layer of Qwen3-30B-A3B,
// 8,192 tokens), and a tenth of that of a refit.
class KeptPages {
 public:
  // The C library gives larger blocks back whatever it is told, unless it keeps all. A refit has
  // blocks of gigabytes that it needs only once.
  enum Blocks { kOf32MiB, kAll };

  explicit KeptPages(Blocks blocks) {
    if (blocks == kAll) {
      mallopt(M_MMAP_MAX, 0);
    } else {
      mallopt(M_MMAP_THRESHOLD, 32 << 20);
    }
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  }
  KeptPages(const KeptPages&) = delete;
  KeptPages& operator=(const KeptPages&) = delete;
  // Back to what the C library starts with.
  ~KeptPages() {
    mallopt(M_MMAP_MAX, 65536);
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    malloc_trim(0);
  }
};

}  // namespace moepack::runtime
