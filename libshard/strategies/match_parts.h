// Which parts of different layers belong to one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {

// parts[layer][part]: expert ids. Parts of a layer trade places while sessions then find more of
// what they use in one group: first layer after layer by how much sessions used the groups of the
// layers before, then by the group that captures most of each session. Only parts of the same size
// trade. With fewer sessions than groups nothing is known, and nothing changes.
Status MatchParts(const SessionShares& shares, std::vector<std::vector<ExpertIds>>& parts);

}  // namespace moepack
