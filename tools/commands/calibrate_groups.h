// The second half of a calibration: the refitted experts of groups, each for its node.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_store.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/estimate.h"
#include "tools/commands/calibrate_run.h"
#include "tools/commands/calibrate_share.h"

namespace moepack::cli {

struct GroupsToEncode {
  std::string source;  // the model, for messages
  const RefittedGroups& groups;
  const LoadedModel& loaded;
  const runtime::CalibrateInput& input;  // of that model
  const runtime::CalibrateOptions& options;
  // The encoded tensors of a layer of the model, which is finished.
  std::function<Result<EncodedTensors>(uint32_t layer)> whole;
};

// For each group, the first one that makes the same node: its own number if no earlier one does.
Result<std::vector<uint32_t>> FirstWithSameNode(const RefittedGroups& groups);

// Encodes every layer of every group that the store does not have yet, printing a line for each.
// Groups with the same experts and the same refit are encoded once. Errors are those of
// Calibrator::OpenGroup, and kMismatch for a refit store that does not fit the model.
Status EncodeGroups(const GroupsToEncode& work, CalibratedStoreWriter& store);
// The same of the groups that a task has, into the store of that task, except those that the whole
// calibration, `gathered`, has already.
Status EncodeGroupsOfTask(const GroupsToEncode& work, const std::vector<uint32_t>& twins,
                          const CalibratedRecord& gathered, SharedExperts& shared);
// Adds what all tasks encode to the store of the whole calibration, and waits for it. kMismatch,
// naming the directory, for a task with other experts or tensors.
Status GatherGroups(const GroupsToEncode& work, const std::vector<uint32_t>& twins,
                    SharedExperts& shared, CalibratedStoreWriter& store);

// By group that was refitted, how many experts of each layer its node has, and how many of them
// changed.
std::vector<runtime::GroupExperts> ExpertsOf(const RefittedGroups& groups);

}  // namespace moepack::cli
