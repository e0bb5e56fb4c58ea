// Nodes that hold the same experts and count the same text alike are refitted once.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/plan/plan.h"
#include "runtime-shim/refit/calibration.h"

namespace moepack::runtime {

// For each group the first one with the same experts, refitted and fixed, in every layer, for which
// every session of the text counts as much: its own number where no earlier group is like it.
std::vector<uint32_t> FirstTwins(const Plan& plan, const Calibration& text);

}  // namespace moepack::runtime
