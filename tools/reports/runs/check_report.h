// The output of list-tensors --check: one line per disagreement, or one that says what was checked.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/check/finding.h"
#include "libshard/model/model.h"

namespace moepack::cli {

std::string CheckText(const MoeModel& model, const std::vector<CheckFinding>& findings);
moepack::Json CheckJson(const MoeModel& model, const std::vector<CheckFinding>& findings);

}  // namespace moepack::cli
