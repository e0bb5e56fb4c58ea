#include "runtime-shim/gradient/batch.h"

#include <algorithm>
#include <numeric>

#include "libshard/strategies/split_mix.h"

namespace moepack::runtime {

std::vector<uint32_t> DrawBatch(size_t rows, size_t size, uint32_t step) {
  std::vector<uint32_t> batch(std::min(rows, size));
  std::iota(batch.begin(), batch.end(), 0u);
  if (rows <= size) return batch;
  SplitMix64 random(step);
  for (uint32_t& row : batch) row = static_cast<uint32_t>(random.Below(rows));
  return batch;
}

}  // namespace moepack::runtime
