// Checks that tensors have the shapes that follow from the sizes in the config.
#pragma once

#include <vector>

#include "libshard/check/finding.h"
#include "libshard/check/promise.h"
#include "libshard/model/model.h"

namespace moepack {

// Looks at every tensor whose role and name say what its dimensions are. Equal findings on several
// tensors become one, which names the first. REQUIRES: the shapes are known (not names only).
void CheckShapes(const MoeModel& model, const ModelPromise& promise,
                 std::vector<CheckFinding>& findings);

}  // namespace moepack
