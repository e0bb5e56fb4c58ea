// The order in which an experiment runs its sessions, and when it may look at its results and stop.
// All of this is fixed before the first token runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/eval/evaluate.h"

namespace moepack::runtime {

// The indexes of the sessions in the order in which they run: every prefix of it has about the same
// share of each bucket as all sessions. Within a bucket the digests of names decide.
std::vector<size_t> OrderSessions(std::span<const TokenSession> sessions);

// A standard error over fewer sessions means little.
inline constexpr size_t kLeastLook = 6;

// After how many sessions each look happens, ascending; the last is after all of them. Equal parts,
// but at least kLeastLook sessions before the first, so there may be fewer than `looks`. REQUIRES:
// looks > 0, sessions > 0.
std::vector<size_t> PlanLooks(size_t sessions, uint32_t looks);

}  // namespace moepack::runtime
