// How a router's weights answer to its logits.
#pragma once

#include <span>
#include <vector>

#include "libshard/model/routing.h"

namespace moepack::runtime {

// Of one token: the gradient of a loss by the logits, from that by the weights of the chosen
// experts, while the choice stays. `logits` are those of the eligible experts, `chosen` places
// among them, and `by_weight` has one value for each. It goes backwards through steps 8, 7, 6 and 2
// of model/router.cc. Where the sum of the weights is below the floor of step 7, the floor's own
// part is left out.
std::vector<double> GateGradient(const Routing& routing, std::span<const float> logits,
                                 std::span<const uint32_t> chosen,
                                 std::span<const double> by_weight);

}  // namespace moepack::runtime
