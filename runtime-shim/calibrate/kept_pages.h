// Keeps freed memory in the process for as long as a calibration runs.
#pragma once

#include <malloc.h>

#include <limits>

namespace moepack::runtime {

// Moments and factors of an expert are half a gigabyte of matrices that come and go. If the system
// got their pages back each time and had to clear new ones, that took more than half of the
// processor time of a calibration (one layer of Qwen3-30B-A3B, 8,192 tokens).
class KeptPages {
 public:
  KeptPages() {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  }
  KeptPages(const KeptPages&) = delete;
  KeptPages& operator=(const KeptPages&) = delete;
  // Back to what the C library starts with.
  ~KeptPages() {
    mallopt(M_MMAP_MAX, 65536);
    mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    malloc_trim(0);
  }
};

}  // namespace moepack::runtime
