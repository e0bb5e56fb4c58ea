// Which chunk experts the experts of a token bring along (ModelSpec::chunks), on plain floats.
#pragma once

#include <cstdint>
#include <span>

#include "libshard/base/text/expert_ids.h"
#include "libshard/model/routing.h"
#include "runtime-shim/model/router.h"

namespace moepack::runtime {

// Returns the chunks of the first chosen experts, as many as there are chunks at most, in ascending
// id and each once, with their weights. As in llama.cpp's graph of GroveMoE, chunk c has the weight
// of *expert* c in the softmax of the eligible experts' logits, divided by the sum over the chosen;
// a chunk that several experts bring along has it several times. `per_chunk` experts share one.
// REQUIRES: `chosen` is what SelectExperts made of the other arguments.
Selection ChunksOf(std::span<const float> logits, const ExpertIds& eligible,
                   const Selection& chosen, uint32_t per_chunk);

}  // namespace moepack::runtime
