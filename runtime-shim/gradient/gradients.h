// How the weights of experts and the gates of routers respond to what they are made of.
#pragma once

#include <span>
#include <vector>

#include "libshard/model/routing.h"
#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// For one token: the gradient of a loss with respect to the logits, from that with respect to the
// weights of the chosen experts, with the choice fixed. `logits` are those of the eligible experts,
// `chosen` are indexes into them, and `by_weight` has one value for each. It goes backwards through
// steps 8, 7, 6 and 2 of model/router.cc. If the sum of the weights is below the floor of step 7,
// the floor's own contribution is left out.
std::vector<double> GateGradient(const Routing& routing, std::span<const float> logits,
                                 std::span<const uint32_t> chosen,
                                 std::span<const double> by_weight);

// How the activations of an expert respond to its projections.

// Sets `out` to act(gate, up), and replaces each gate and up by the derivative of its activation
// with respect to it. `up` is empty if there is none; otherwise all have the same length.
void ActivateWithSlopes(Activation activation, std::span<float> gate, std::span<float> up,
                        std::span<float> out);

}  // namespace moepack::runtime
