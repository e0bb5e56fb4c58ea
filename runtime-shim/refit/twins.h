// Nodes that hold the same experts and weigh the text equally are refitted only once.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/plan/plan.h"
#include "runtime-shim/refit/calibration.h"

namespace moepack::runtime {

// For each group, the first group that has the same experts, refitted and fixed, in every layer,
// and the same weights for every session of the text: its own number if no earlier group equals it.
std::vector<uint32_t> FirstTwins(const Plan& plan, const Calibration& text);

}  // namespace moepack::runtime
