// An order in which every beginning of a list's places is spread evenly over the list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace moepack {

// The places 0 to count - 1, in an order of which the first k, for any k, lie at about equal
// distances. Every n-th place would also be spread evenly, but in a list whose kinds take turns it
// could be of one kind throughout; these places follow the golden ratio, which has no period.
inline std::vector<size_t> SpreadOrder(size_t count) {
  constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // its fraction, in units of 2^-64; odd
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  // Products with an odd number differ, so there are no ties.
  std::sort(order.begin(), order.end(),
            [](size_t a, size_t b) { return a * kGoldenRatio < b * kGoldenRatio; });
  return order;
}

}  // namespace moepack
