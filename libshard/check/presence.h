// Checks that everything a config promises is there: layers and their parts, embedding, norm, head,
// and blocks for multi-token prediction. Only names are checked.
#pragma once

#include <vector>

#include "libshard/check/finding.h"
#include "libshard/check/promise.h"
#include "libshard/model/model.h"

namespace moepack {

// With `mtp_may_lack`, blocks for multi-token prediction that the config announces may be missing,
// as they are in many published checkpoints.
void CheckPresence(const MoeModel& model, const ModelPromise& promise, bool mtp_may_lack,
                   std::vector<CheckFinding>& findings);

}  // namespace moepack
