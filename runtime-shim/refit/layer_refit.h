// The steps of one layer of one node, each of which is kept only if it helps on the held-out text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refill.h"
#include "runtime-shim/refit/refit_options.h"

namespace moepack::runtime {

struct StepOutcome {
  std::string step;
  double error = 0;  // on the fold, after the step
  bool kept = false;
};

struct LayerOutcome {
  RefitOutcome outcome;  // without a file
  std::vector<StepOutcome> steps;
  // An executor with dense algebra had no room for all of a step, so that the host took a part.
  bool without_room = false;
};

// Routes and runs the node as it is, and then takes the steps. Leaves the experts, routes and
// outputs of the steps that were kept.
Result<LayerOutcome> RefitNodeLayer(Products& products, const RefitOptions& options,
                                    const NeuronSource& source, NodeLayer& node);

}  // namespace moepack::runtime
