#include "libshard/replay/oracle.h"

#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace moepack {
namespace {

constexpr size_t kNever = SIZE_MAX;

// For each id of each request, the next request that has it.
std::vector<size_t> NextUses(const LayerRequests& requests, uint32_t expert_count) {
  std::vector<size_t> next(requests.expert_ids.size());
  std::vector<size_t> last(expert_count, kNever);
  size_t i = next.size();
  for (size_t request = requests.size(); request-- > 0;) {
    const auto ids = requests.At(request);
    for (size_t k = ids.size(); k-- > 0;) {
      next[--i] = last[ids[k]];
      last[ids[k]] = request;
    }
  }
  return next;
}

}  // namespace

void ReplayOracle(const LayerRequests& requests, uint32_t expert_count, uint32_t slots,
                  const std::function<void(size_t request, uint16_t id, bool hit)>& count) {
  const std::vector<size_t> next = NextUses(requests, expert_count);
  std::set<std::pair<size_t, uint16_t>> held;  // by next use
  size_t i = 0;
  for (size_t request = 0; request < requests.size(); ++request) {
    const auto ids = requests.At(request);
    // A held expert of this request is filed under this request, as that is its next use.
    for (const uint16_t id : ids) count(request, id, held.erase({request, id}) > 0);
    for (const uint16_t id : ids) {
      // An expert that is never used again would only take a slot.
      if (next[i] != kNever) held.emplace(next[i], id);
      ++i;
    }
    // Belady's rule: the expert whose next use is farthest away leaves.
    while (held.size() > slots) held.erase(std::prev(held.end()));
  }
}

}  // namespace moepack
