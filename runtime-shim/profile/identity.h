// What statistics say about the model that they were taken from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libshard/base/result.h"
#include "libshard/stats/statistics.h"
#include "runtime-shim/model/model_spec.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// kInvalidArgument when experts are missing: a masked router would be described as if it were the
// model's. REQUIRES: `spec` is that of a Model that was loaded from `weights`.
Result<ModelIdentity> IdentifyModel(const Weights& weights, const ModelSpec& spec);
// The formats of all tensors, most bytes first; those below 1 % of the bytes are left out.
std::string PrecisionOf(const Weights& weights);
// tokenizer.ggml.bos_token_id.
std::optional<uint32_t> BosToken(const GgufMetadata& metadata);

}  // namespace moepack::runtime
