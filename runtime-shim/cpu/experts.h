// The experts of a layer on a team of threads.
#pragma once

#include <vector>

#include "runtime-shim/cpu/thread_team.h"
#include "runtime-shim/executor/expert_batch.h"

namespace moepack::runtime {

// The values between the steps of MixOnThreads: kept from layer to layer, because new memory costs
// a page fault every few rows.
struct ExpertMemory {
  std::vector<float> inner, outer;
};

// Executor::MixExperts. All threads take pieces of gate and up of all experts, then pieces of down
// of all experts, and then rows of the sum, whose experts are added in ascending id. Within these
// three steps nothing waits.
void MixOnThreads(const ExpertBatch& batch, ThreadTeam& team, ExpertMemory& memory,
                  OutputSizes* sizes);

}  // namespace moepack::runtime
