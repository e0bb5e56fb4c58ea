// Reads plan files without the model.
#pragma once

#include <map>
#include <string>

#include "libshard/base/text/json.h"
#include "libshard/plan/plan.h"

namespace moepack {

inline constexpr const char* kPlanFormat = "moepack-plan";

// Reads plan.json as ReadPlanFile does, but does not compare the model that it was made for.
// `layers` and `top_k` come from statistics or a distribution; kCorrupt if the plan names other
// layers. The document may be hostile.
Result<Plan> PlanFileFromJson(const std::string& path, const Json& document,
                              const LayerCounts& layers, const std::map<uint32_t, uint32_t>& top_k);

}  // namespace moepack
