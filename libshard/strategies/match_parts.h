// Decides which parts of different layers belong to one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {

// parts[layer][part]: expert ids. Parts of a layer are swapped as long as sessions then find more
// of what they use in one group: first layer by layer, according to how much sessions used the
// groups in the previous layers, then according to the group that captures most of each session.
// Only parts of the same size are swapped. With fewer sessions than groups nothing is known, so
// nothing changes.
Status MatchParts(const SessionShares& shares, std::vector<std::vector<ExpertIds>>& parts);

}  // namespace moepack
