// Makes the runs of an evaluation: models with masks, and how many of their tokens run at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/session/device_model.h"
#include "runtime-shim/session/together.h"

namespace moepack::runtime {

// A participant of an evaluation whose options FitEvaluation set. Borrows model and options.
Participant Participate(const std::string& label, const Model& model, LayerExperts eligible,
                        const EvalOptions& options, std::optional<uint32_t> group = std::nullopt);
// The same for EvalInput::reference.
Participant ParticipateAsReference(const Model& model, LayerExperts eligible,
                                   const EvalOptions& options);

// Sets how many groups of `own` run in a pass, beside the unmasked run, how many windows side by
// side, how many tokens of each at once, and the slices of logits, so that the bound is kept. The
// logits of a reference are held for all tokens that run at once; null without one.
// kInvalidArgument, with the bytes, where the bound does not hold one group and what it is compared
// with.
Status FitEvaluation(const Model& own, uint32_t groups, const Model* reference,
                     const MemoryBound& bound, EvalOptions& options);

}  // namespace moepack::runtime
