// The router of one MoE layer on plain floats. It is written to be read, and is the reference for
// faster ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/model/routing.h"

namespace moepack::runtime {

// The smallest normal half float, to which llama.cpp's build_moe_ffn clamps the sum of the weights
// from below, so that it is never zero.
inline constexpr float kLeastWeightSum = 6.103515625e-5f;

// The experts of one token, best first, and their weights.
struct Selection {
  std::vector<uint32_t> ids;
  std::vector<float> weights;
};

// Picks top_k of the `eligible` ids. The logits of all others become minus infinity before anything
// else happens, so that the result is that of a router without their rows. `logits` has one value
// per expert, and so has `selection_bias` unless it is empty. Ties go to the lower id.
// kInvalidArgument if sizes or ids do not fit, fewer than top_k experts are eligible, or the chosen
// routing groups hold fewer than top_k of them.
Result<Selection> SelectExperts(std::span<const float> logits,
                                std::span<const float> selection_bias, const Routing& spec,
                                const ExpertIds& eligible);

// Weighs experts that something else has chosen: `ids`, spec.top_k of them, in their order. Logits
// of experts that are not eligible are ignored. kInvalidArgument if sizes or ids do not fit, or an
// id is not eligible.
Result<Selection> WeighExperts(std::span<const float> logits, std::span<const uint32_t> ids,
                               const Routing& spec, const ExpertIds& eligible);

// Returns the gate value of each expert without the choice: steps 2 and 6 (router.cc) over all
// `logits`, without mask, bias, normalisation or scale. They are used to compare experts of one
// layer.
std::vector<float> GateValues(std::span<const float> logits, const Routing& spec);

}  // namespace moepack::runtime
