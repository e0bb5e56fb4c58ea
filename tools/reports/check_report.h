// What list-tensors --check prints: one line per disagreement, or one that says what was checked.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/json.h"
#include "libshard/check/finding.h"
#include "libshard/model/model.h"

namespace cli {

std::string CheckText(const shard::MoeModel& model,
                      const std::vector<shard::CheckFinding>& findings);
shard::Json CheckJson(const shard::MoeModel& model,
                      const std::vector<shard::CheckFinding>& findings);

}  // namespace cli
