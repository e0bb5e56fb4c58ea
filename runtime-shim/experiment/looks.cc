#include "runtime-shim/experiment/looks.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

#include "libshard/base/digest.h"

namespace moepack::runtime {

std::vector<size_t> OrderSessions(std::span<const TokenSession> sessions) {
  std::vector<std::string> digests;
  std::map<std::string, std::vector<size_t>> buckets;
  for (size_t i = 0; i < sessions.size(); ++i) {
    // Digests of names order the sessions, so that the order in a file does not matter.
    digests.push_back(Sha256Hex(sessions[i].name));
    buckets[sessions[i].bucket].push_back(i);
  }
  std::vector<double> turns(sessions.size());
  for (auto& [bucket, places] : buckets) {
    std::sort(places.begin(), places.end(), [&](size_t a, size_t b) {
      return digests[a] != digests[b] ? digests[a] < digests[b] : a < b;
    });
    for (size_t i = 0; i < places.size(); ++i) {
      // Spreads each bucket evenly over the order, whatever its size, so that every look sees all
      // buckets in proportion.
      turns[places[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(places.size());
    }
  }
  std::vector<size_t> order(sessions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (turns[a] != turns[b]) return turns[a] < turns[b];
    return digests[a] != digests[b] ? digests[a] < digests[b] : a < b;
  });
  return order;
}

std::vector<size_t> PlanLooks(size_t sessions, uint32_t looks) {
  assert(looks > 0 && sessions > 0);
  std::vector<size_t> ends;
  for (size_t look = 1; look <= looks; ++look) {
    const size_t part = (sessions * look + looks - 1) / looks;
    const size_t end = std::min(std::max(part, kLeastLook), sessions);
    if (ends.empty() || end > ends.back()) ends.push_back(end);
  }
  return ends;
}

}  // namespace moepack::runtime
