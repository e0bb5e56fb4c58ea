// How many tokens run at once within a memory limit.
#pragma once

#include <cstdint>

#include "libshard/base/result.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// For `sessions` sessions of `context` positions that run side by side.
struct Together {
  uint32_t sessions = 1;
  uint32_t chunk = 1;        // tokens of each that run at once
  uint64_t logit_bytes = 0;  // SessionOptions::logit_bytes
  uint32_t batch() const { return sessions * chunk; }
};
// More tokens than this gain nothing: each decoded weight then serves hundreds of tokens.
inline constexpr uint32_t kMostTogether = 8192;

// What caches, activations and logits may take.
struct MemoryBound {
  uint64_t wanted = 1u << 30;   // exceeded only where less would not do
  uint64_t limit = UINT64_MAX;  // never exceeded
};

// What sessions of a model take, in bytes.
struct SessionCosts {
  uint64_t session = 0;   // each, whatever its length
  uint64_t position = 0;  // each position of each
  uint64_t token = 0;     // each token that runs at once
  uint64_t logits = 0;    // a row of logits, which is in memory twice: on the executor and read
};
SessionCosts CostsOf(const Model& model);

// The bytes of so many sessions that run one token of each at a time.
uint64_t LeastBytes(const SessionCosts& costs, uint32_t sessions, uint32_t context);
// So many sessions, with as large a chunk as fits into `bytes`. REQUIRES: at least LeastBytes.
Together FitBytes(const SessionCosts& costs, uint32_t sessions, uint32_t context, uint64_t bytes);
// kInvalidArgument, with the bytes, for a bound that is below `least`.
Status CheckBound(const Model& model, uint64_t least, uint32_t context, const MemoryBound& bound);

// As many sessions as fit into the bound with whole contexts, at most kMostTogether tokens and at
// least one session, whose chunk is smaller if its context does not fit. Errors are those of
// CheckBound.
Result<Together> FitSessions(const Model& model, uint32_t context, const MemoryBound& bound);

}  // namespace moepack::runtime
