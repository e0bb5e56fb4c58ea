// A run's report on the values it wrote: how many are not finite, and how exactly the source's own
// grid was kept (RowReader::Repack).
#pragma once

#include <algorithm>
#include <cstdint>

namespace moepack {

// Counts blocks that have the source's codes and scales as close to the source's as the target
// allows.
struct GridReport {
  uint64_t weights = 0;  // in such blocks
  uint64_t scales = 0;   // of the source
  uint64_t exact = 0;    // scales among them that the target represents exactly
  double rounding = 0;   // the largest relative change of a scale; 1: it became zero

  void Add(const GridReport& other) {
    weights += other.weights;
    scales += other.scales;
    exact += other.exact;
    rounding = std::max(rounding, other.rounding);
  }
};

struct ValueReport {
  uint64_t not_finite = 0;  // NaN or infinite
  GridReport grid;
};

}  // namespace moepack
