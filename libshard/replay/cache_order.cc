#include "libshard/replay/cache_order.h"

#include <tuple>
#include <utility>

namespace moepack {

std::optional<uint32_t> RecencyOrder::PlaceOf(uint16_t id) const {
  if (places_[id] == kNowhere) return std::nullopt;
  return places_[id];
}

void RecencyOrder::Use(std::span<const uint16_t> ids) {
  for (const uint16_t id : ids) {
    if (places_[id] == kNowhere) {
      places_[id] = static_cast<uint32_t>(order_.size());
      order_.push_back(id);
    }
    for (uint32_t place = places_[id]; place > 0; --place) {
      order_[place] = order_[place - 1];
      places_[order_[place]] = place;
    }
    order_[0] = id;
    places_[id] = 0;
  }
}

std::optional<uint32_t> FrequencyOrder::PlaceOf(uint16_t id) const {
  if (uses_[id].count == 0) return std::nullopt;
  return uses_[id].place;
}

bool FrequencyOrder::Before(uint16_t a, uint16_t b) const {
  return std::tuple(uses_[b].count, uses_[b].last, a) <
         std::tuple(uses_[a].count, uses_[a].last, b);
}

void FrequencyOrder::Use(std::span<const uint16_t> ids) {
  ++requests_;
  for (const uint16_t id : ids) {
    Uses& uses = uses_[id];
    if (uses.count == 0) {
      uses.place = static_cast<uint32_t>(order_.size());
      order_.push_back(id);
    }
    ++uses.count;
    uses.last = requests_;
    // Counts only grow, so an id that is used can only move forward.
    while (uses.place > 0 && Before(id, order_[uses.place - 1])) {
      const uint16_t other = order_[uses.place - 1];
      order_[uses.place] = other;
      uses_[other].place = uses.place;
      --uses.place;
      order_[uses.place] = id;
    }
  }
}

FixedOrder::FixedOrder(const std::vector<uint32_t>& best_first)
    : places_(best_first.size()), used_(best_first.size()) {
  for (uint32_t place = 0; place < best_first.size(); ++place) places_[best_first[place]] = place;
}

std::optional<uint32_t> FixedOrder::PlaceOf(uint16_t id) const {
  // The cache starts empty, so the first use of an expert is a miss even if it is a chosen one.
  if (!used_[id]) return std::nullopt;
  return places_[id];
}

void FixedOrder::Use(std::span<const uint16_t> ids) {
  for (const uint16_t id : ids) used_[id] = true;
}

}  // namespace moepack
