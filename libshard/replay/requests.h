// The requests that one layer of a trace makes to its cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/import/route_trace.h"

namespace moepack {

struct LayerRequests {
  std::vector<uint16_t> expert_ids;  // of all requests; no id twice in one
  std::vector<uint64_t> ends;        // for each request, where its ids end
  std::vector<Phase> phases;
  size_t first_counted = 0;  // requests before it only fill the cache

  size_t size() const { return ends.size(); }
  std::span<const uint16_t> At(size_t index) const {
    const uint64_t begin = index == 0 ? 0 : ends[index - 1];
    return std::span(expert_ids).subspan(begin, ends[index] - begin);
  }
};

// One request per step; up to `prefill_batch` consecutive steps of a prompt form one. The ids of a
// request are in the order in which a cache should remember them, the last used at the end: those
// of later tokens after those of earlier ones, the best of a token last. Steps before
// `first_counted` are not counted, and share no request with later ones.
LayerRequests RequestsOf(const RouteTrace& trace, size_t layer, uint32_t prefill_batch,
                         uint32_t first_counted);

}  // namespace moepack
