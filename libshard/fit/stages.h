// Divides a model's layers between machines that run one after the other, for models whose trunk
// alone is too large for one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/fit/node_bytes.h"
#include "libshard/plan/plan.h"

namespace moepack {

struct StageInput {
  ModelBytes bytes;
  uint32_t eligible = 0;               // experts that a node holds of every layer, at most
  std::map<uint32_t, uint64_t> cache;  // of all sessions, by layer; may be empty
  uint64_t buffers = 0;                // on every machine
  std::vector<uint64_t> budgets;       // of the machines in their order, or none: all alike
};

struct StageNeed {
  StageRange range;
  uint64_t weights = 0, cache = 0, buffers = 0;
  uint64_t budget = 0;  // 0 without budgets
  uint64_t total() const { return weights + cache + buffers; }
};

// Returns contiguous ranges of layers, in order, such that the largest stage (with budgets, the one
// that fills its machine most) is as small as can be. What lies before the layers, such as the
// embedding, goes with the first stage, and the head with the last, which has a copy of the
// embedding where that is the head. Containers are not counted: a stage's files are not made here.
// kInvalidArgument for more stages than layers, and for a stage that does not fit its machine.
Result<std::vector<StageNeed>> DivideIntoStages(const StageInput& input, uint32_t stages);

}  // namespace moepack
