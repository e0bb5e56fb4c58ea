// Pipeline stages of a plan.
#pragma once

#include <cstdint>

namespace moepack {

// The layers that one of several machines of a node runs, both ends included.
struct StageRange {
  uint32_t first_layer = 0, last_layer = 0;
  bool operator==(const StageRange&) const = default;
};

}  // namespace moepack
