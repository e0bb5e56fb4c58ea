// Checks whether text that is meant to measure a refit was also used to make it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/profile/windows.h"

namespace moepack::runtime {

// How many consecutive tokens two texts must share to be counted.
inline constexpr size_t kOverlapTokens = 12;
// Licences and the like occur in many texts; a session that shares more than this was copied.
inline constexpr double kMostOverlap = 0.1;

struct Overlap {
  std::string session;  // of the held-out text
  double share = 0;     // share of its runs of kOverlapTokens that are also in the calibration text
};

// One entry for each held-out session that shares anything, in their order.
std::vector<Overlap> FindOverlaps(std::span<const TokenSession> calibration,
                                  std::span<const TokenSession> held_out);
// kInvalidArgument, naming the first, if a session shares more than kMostOverlap.
Status CheckOverlaps(std::span<const Overlap> overlaps);

}  // namespace moepack::runtime
