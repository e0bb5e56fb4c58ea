// How many tokens run at once within a memory limit.
#pragma once

#include <cstdint>

#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// For `sessions` sessions of `context` positions that run side by side.
struct Together {
  uint32_t sessions = 1;
  uint32_t chunk = 1;  // tokens of each that run at once
  uint32_t batch() const { return sessions * chunk; }
};
// More tokens than this gain nothing: each decoded weight then serves hundreds of tokens.
inline constexpr uint32_t kMostTogether = 8192;
// What profile and eval use by default.
inline constexpr uint64_t kRunMemory = 1u << 30;

// As many sessions as fit in `memory` with whole contexts: at most kMostTogether tokens, and at
// least one session, whose chunk is smaller if its context does not fit.
Together FitSessions(const Model& model, uint32_t context, uint64_t memory);
// This many sessions, with as large a chunk as fits, at least one token.
Together FitChunk(const Model& model, uint32_t sessions, uint32_t context, uint64_t memory);

}  // namespace moepack::runtime
