// Runs a race: every group scores the beginning of a session.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "runtime-shim/eval/race.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// Lets each group, given by what its routers may pick, score the first `race_tokens` tokens after
// the first one. kInvalidArgument for fewer than 2 tokens or no groups; otherwise the errors of
// sessions.
Result<RaceResult> RaceGroups(const Model& model, std::span<const LayerExperts> groups,
                              std::span<const uint32_t> tokens, uint32_t race_tokens);

}  // namespace moepack::runtime
