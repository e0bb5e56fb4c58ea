// How machines that encode the experts of a layer together get each other's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/tasks/divide.h"

namespace moepack::runtime {

// Some experts of a layer: what became of each, and their encoded rows, by tensor, one expert after
// another in the order of the outcome's list.
struct EncodedExperts {
  CalibratedOutcome outcome;  // `layer` and `experts`
  EncodedTensors slabs;
};

class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  virtual TaskNumber task() const = 0;
  // What this task encoded in an earlier run; no value if it did not come so far.
  virtual Result<std::optional<EncodedExperts>> Own(uint32_t layer) = 0;
  // Hands out the experts of this task, waits for those of all others, and returns all of them.
  virtual Result<std::vector<EncodedExperts>> Exchange(EncodedExperts own) = 0;
};

}  // namespace moepack::runtime
