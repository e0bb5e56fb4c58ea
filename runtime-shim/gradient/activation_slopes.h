// How the activations of an expert respond to its projections.
#pragma once

#include <span>

#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// Sets `out` to act(gate, up), and replaces each gate and up by the derivative of its activation
// with respect to it. Where a value is clamped, its derivative is 0. `up` may be
// empty for kSquaredRelu, which does not use it; otherwise all have the same length.
void ActivateWithSlopes(Activation activation, std::span<float> gate, std::span<float> up,
                        std::span<float> out);

}  // namespace moepack::runtime
