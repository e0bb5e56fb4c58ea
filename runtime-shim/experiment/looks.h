// In which order an experiment takes its sessions, and when it may look at what it has and stop.
// All of it is fixed before the first token runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moepack::runtime {

struct SessionName {
  std::string name, bucket;
};

// The places of the sessions in the order in which they run: every beginning of it has of each
// bucket about the share that all sessions have. Inside a bucket the digests of names decide.
std::vector<size_t> OrderSessions(std::span<const SessionName> sessions);

// A standard error of fewer sessions says little.
inline constexpr size_t kLeastLook = 6;

// After how many sessions each look is, ascending; the last is after all of them. Equal parts, but
// at least kLeastLook sessions before the first, so there may be fewer than `looks`.
// REQUIRES: looks > 0, sessions > 0.
std::vector<size_t> PlanLooks(size_t sessions, uint32_t looks);

}  // namespace moepack::runtime
