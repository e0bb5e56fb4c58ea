// Searches for the bias that only affects the choice (RouterBias::kSelection).
#pragma once

#include "libshard/base/result.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/router_sample.h"

namespace moepack::runtime {

// Moves the bias of one expert after another, up or down, if that lowers the error of the sample,
// in rounds of shrinking steps. The first step is the mean distance between the scores of the best
// expert and of the best one that was not chosen. Does nothing for a router without such a bias.
Status SearchSelectionBias(Products& products, const RouterSample& sample, NodeLayer& node);

}  // namespace moepack::runtime
