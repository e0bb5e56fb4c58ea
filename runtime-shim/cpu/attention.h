// Attention of one token for the query heads that share a key head, as products of small matrices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

struct GroupInputs {
  const Executor::AttentionInputs& rows;
  const Rows& out;
  std::span<const float> sinks;  // one per query head, or empty
  uint32_t token, key_head;
};
// Memory that is reused across calls.
struct AttentionScratch {
  std::vector<float> scores;
  std::vector<const float*> queries;
  std::vector<float*> rows;
};

// Writes the columns of the group's heads in the token's row of `out`. The result depends only on
// the positions that the token sees, not on the rest of the batch.
void AttendGroup(const AttentionShape& shape, const GroupInputs& inputs, AttentionScratch& scratch);

}  // namespace moepack::runtime
