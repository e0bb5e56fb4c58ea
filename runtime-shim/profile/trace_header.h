// What a trace says about the model that it was made with.
#pragma once

#include <vector>

#include "libshard/import/route_trace.h"
#include "libshard/stats/statistics.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// REQUIRES: `model` is what IdentifyModel returned for `weights`, so all experts exist.
TraceHeader TraceHeaderOf(const Weights& weights, const ModelIdentity& model,
                          std::vector<TraceTurn> turns);

}  // namespace moepack::runtime
