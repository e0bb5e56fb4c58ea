#include "runtime-shim/calibrate/expert_exchange.h"

#include <algorithm>
#include <numeric>

namespace moepack::runtime {

std::vector<uint32_t> ExpertsOfTask(const std::vector<size_t>& tokens, size_t fixed,
                                    const TaskNumber& task) {
  std::vector<uint32_t> order(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return tokens[a] > tokens[b]; });
  std::vector<uint64_t> loads(task.count);
  std::vector<uint32_t> own;
  for (const uint32_t id : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += tokens[id] + fixed;
    if (static_cast<uint32_t>(least - loads.begin()) == task.index) own.push_back(id);
  }
  std::sort(own.begin(), own.end());
  return own;
}

}  // namespace moepack::runtime
