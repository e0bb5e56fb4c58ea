// Nodes that hold the same experts and weigh the text equally are refitted only once.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/plan/plan.h"
#include "runtime-shim/refit/calibration.h"

namespace moepack::runtime {

// Whether two groups have the same experts, refitted and fixed, in every layer.
bool HoldSameExperts(const Plan& plan, uint32_t a, uint32_t b);

// For each group, the first group that holds the same experts and has the same weights for every
// session of the text: its own number if no earlier group equals it.
std::vector<uint32_t> FirstTwins(const Plan& plan, const Calibration& text);

}  // namespace moepack::runtime
