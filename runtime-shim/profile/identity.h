// Describes the model that statistics were taken from.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/result.h"
#include "libshard/graph/model_spec.h"
#include "libshard/stats/statistics.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Describes a model. kInvalidArgument if experts are missing, because the statistics of a masked
// router would pass for the model's. REQUIRES: `spec` belongs to a Model that was loaded from
// `weights`.
Result<ModelIdentity> IdentifyModel(const Weights& weights, const ModelSpec& spec);
// The digest of its routers (ModelIdentity::router_digest). kCorrupt if one is missing.
Result<std::string> RouterDigestOf(const Weights& weights);
// Returns the formats of all tensors, most bytes first, without those with less than 1 % of the
// bytes.
std::string PrecisionOf(const Weights& weights);

}  // namespace moepack::runtime
