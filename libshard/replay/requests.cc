#include "libshard/replay/requests.h"

#include <algorithm>

namespace moepack {
namespace {

// Whether step `b` of the trace may run together with the steps from `a` on.
bool RunsWith(const RouteTrace& trace, uint32_t a, uint32_t b, uint32_t first_counted) {
  const TraceStep &first = trace.steps[a], &step = trace.steps[b];
  return first.phase == Phase::kPrefill && step.phase == Phase::kPrefill &&
         first.turn == step.turn && (a < first_counted) == (b < first_counted);
}

}  // namespace

LayerRequests RequestsOf(const RouteTrace& trace, size_t layer, uint32_t prefill_batch,
                         uint32_t first_counted) {
  const LayerTrace& source = trace.layers[layer];
  LayerRequests requests;
  requests.expert_ids.reserve(source.expert_ids.size());
  std::vector<size_t> seen(source.shape.expert_count, SIZE_MAX);  // the request that has the id
  size_t begin = 0;
  while (begin < source.steps.size()) {
    size_t end = begin + 1;
    while (end < source.steps.size() && end - begin < prefill_batch &&
           RunsWith(trace, source.steps[begin], source.steps[end], first_counted))
      ++end;
    const auto start = static_cast<std::ptrdiff_t>(requests.expert_ids.size());
    // Backwards, so that the last use of an id is the one that counts.
    for (size_t i = end; i-- > begin;) {
      for (const uint16_t id : source.Chosen(i)) {
        if (seen[id] == requests.size()) continue;
        seen[id] = requests.size();
        requests.expert_ids.push_back(id);
      }
    }
    std::reverse(requests.expert_ids.begin() + start, requests.expert_ids.end());
    if (source.steps[begin] < first_counted) requests.first_counted = requests.size() + 1;
    requests.ends.push_back(requests.expert_ids.size());
    requests.phases.push_back(trace.steps[source.steps[begin]].phase);
    begin = end;
  }
  return requests;
}

}  // namespace moepack
