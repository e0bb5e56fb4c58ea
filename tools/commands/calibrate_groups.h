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
  const RefittedGroups& groups;
  const runtime::CalibrateInput& input;
  const runtime::CalibrateOptions& options;
  // The encoded tensors of a layer of the model, which is finished.
  std::function<Result<EncodedTensors>(uint32_t layer)> whole;
};
// Encodes every layer of every group that the store does not have yet, printing a line for each.
// Groups with the same experts and the same refit are encoded once. Errors are those of
// Calibrator::OpenGroup, and kMismatch for a refit store that does not fit the model.
Status EncodeGroups(const GroupsToEncode& work, CalibratedStoreWriter& store);
// The same of the groups that a task has, into the store of that task.
Status EncodeGroupsOfTask(const GroupsToEncode& work, SharedExperts& shared);
// Adds what all tasks encode to the store of the whole calibration, and waits for it.
Status GatherGroups(const GroupsToEncode& work, SharedExperts& shared,
                    CalibratedStoreWriter& store);

// By group, how many experts of each layer its node has, and how many of them were refitted.
std::vector<runtime::GroupExperts> ExpertsOf(const RefittedGroups& groups);

// kCorrupt, with `where`, for an error that is not finite.
Status CheckFinite(const std::string& where, const CalibratedOutcome& outcome);

}  // namespace moepack::cli
