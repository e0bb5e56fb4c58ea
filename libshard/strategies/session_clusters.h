// Groups sessions by the experts that they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/strategies/session_gram.h"

namespace moepack {

// Centred spherical k-means from `restarts` starts (k-means++ on a generator seeded with `seed`).
// Returns the different groupings found, the best first: clusters[i][session] < groups. Clusters
// are numbered by their first session. REQUIRES: 0 < groups <= gram.size().
Result<std::vector<std::vector<uint32_t>>> ClusterSessions(const SessionGram& gram, size_t groups,
                                                           size_t restarts, uint64_t seed);

}  // namespace moepack
