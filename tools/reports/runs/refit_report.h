// The output of `refit`.
#pragma once

#include <string>

#include "libshard/base/text/json.h"
#include "libshard/refit/refit_record.h"
#include "runtime-shim/refit/estimate.h"
#include "runtime-shim/refit/layer_refit.h"

namespace moepack::cli {

// A line about a group of a layer; `again` if it was refitted before.
std::string RefitLine(const runtime::LayerOutcome& outcome, bool again);
// What a refit of this many tokens will need; `rate`: multiplications per second on this machine.
std::string RefitPlanText(const runtime::RefitEstimate& estimate, uint64_t tokens, uint64_t memory,
                          double rate);
// All layers and groups of a refit.
std::string RefitText(const RefitRecord& record);

}  // namespace moepack::cli
