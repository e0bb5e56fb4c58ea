// Makes the runs of an evaluation: models with masks, and how many of their tokens run at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {

// One of `together` participants of the model, which run in one pass. Borrows model and options.
Participant Participate(const std::string& label, const Model& model, LayerExperts eligible,
                        const EvalOptions& options, uint32_t together,
                        std::optional<uint32_t> group = std::nullopt);

// How many tokens of each of `runs` runs of `own` run at once within `memory`. The logits of a
// reference are held for all of them; null without one.
uint32_t FitEvalChunk(const Model& own, uint32_t runs, const Model* reference, uint32_t context,
                      uint64_t memory);

}  // namespace moepack::runtime
