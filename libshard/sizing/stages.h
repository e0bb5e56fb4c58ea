// Divides a model's layers between machines that run one after another, for models whose trunk
// alone is too large for one machine.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/sizing/node_bytes.h"

namespace moepack {

struct StageInput {
  ModelBytes bytes;
  uint32_t eligible = 0;               // the most experts that a node holds in any layer
  std::map<uint32_t, uint64_t> cache;  // of all sessions, by layer; may be empty
  uint64_t buffers = 0;                // on every machine
  std::vector<uint64_t> budgets;       // of the machines in order, or none if all are alike
};

struct StageNeed {
  StageRange range;
  uint64_t weights = 0, cache = 0, buffers = 0;
  uint64_t budget = 0;  // 0 without budgets
  uint64_t total() const { return weights + cache + buffers; }
};

// Returns contiguous ranges of layers, in order, such that the largest stage (with budgets, the one
// that fills its machine the most) is as small as possible. What comes before the layers, such as
// the embedding, goes to the first stage, and the head to the last, which gets a copy of the
// embedding if that is the head. Containers are not counted: a stage's files are not made here.
// kInvalidArgument for more stages than layers, and for a stage that does not fit its machine.
Result<std::vector<StageNeed>> DivideIntoStages(const StageInput& input, uint32_t stages);

}  // namespace moepack
