// Angles of rotary embeddings, as tables of cosine and sine that every executor gets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/model_spec.h"

namespace moepack::runtime {

// The rotation of pair i of a head at position p: the angle is p * turn[i]; YaRN's mixture is
// already included in turn[i]. `factors` (empty, or one per pair) divide the angles of the unscaled
// frequencies (llama3 scaling, LongRoPE).
std::vector<double> PairTurns(const RopeSpec& rope, std::span<const float> factors);

// Rows of rope.dims values for positions first, first + 1, ...: the cosines of all pairs, then the
// sines, times rope.attention_factor. REQUIRES: out.size() is a multiple of rope.dims.
void FillTurns(const RopeSpec& rope, std::span<const double> turns, uint32_t first,
               std::span<float> out);

}  // namespace moepack::runtime
