// Divides pieces of work among tasks so that all have about the same to do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace moepack {

// The task of each piece: the largest piece goes first, each to the task that has the least so far,
// and pieces that cost the same go to the tasks in turns. The answer is the same on every machine,
// so tasks that know nothing of each other agree. REQUIRES: `tasks` is at least 1.
inline std::vector<uint32_t> EvenShares(const std::vector<uint64_t>& costs, uint32_t tasks) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<uint64_t> loads(tasks);
  std::vector<uint32_t> task_of(costs.size());
  for (const size_t piece : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    task_of[piece] = static_cast<uint32_t>(least - loads.begin());
    *least += std::max<uint64_t>(costs[piece], 1);
  }
  return task_of;
}

}  // namespace moepack
