// Ridge regression of down projections (ridge.h) in the memory of an executor with dense algebra:
// normal matrices are added up, factorized and solved there.
#pragma once

#include <cstdint>
#include <span>

#include "libshard/base/result.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

// Both do what RidgeFrom does, jointly or in turns; false, with nothing changed, where the executor
// has no algebra or too little memory. As there, RidgeJointlyOnDevice leaves the outputs as they
// were.
Result<bool> RidgeJointlyOnDevice(Products& products, double lambda, std::span<const float> before,
                                  NodeLayer& node);
Result<bool> RidgeInTurnsOnDevice(Products& products, double lambda, std::span<const float> before,
                                  uint32_t sweeps, NodeLayer& node);

}  // namespace moepack::runtime
