// Belady's MIN: the cache that knows the future.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "libshard/replay/requests.h"

namespace moepack {

// Calls `count` for every expert of every request, in order, with whether the cache of `slots`
// slots holds it. After a request it keeps, of what it held and what was requested, what will be
// requested again soonest; ties do not matter, because ids of one request are requested together.
// Time: O(n log slots) for n ids.
void ReplayOracle(const LayerRequests& requests, uint32_t expert_count, uint32_t slots,
                  const std::function<void(size_t request, uint16_t id, bool hit)>& count);

}  // namespace moepack
