// Traces of one layer, written as lists of ids, and random ones.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/import/route_trace.h"

namespace moepack {

inline void AddLayer(RouteTrace& trace, uint32_t layer, uint32_t expert_count,
                     const std::vector<std::vector<uint16_t>>& chosen) {
  LayerTrace added;
  added.shape = {layer, expert_count, static_cast<uint32_t>(chosen[0].size())};
  for (uint32_t step = 0; step < chosen.size(); ++step) {
    added.steps.push_back(step);
    added.expert_ids.insert(added.expert_ids.end(), chosen[step].begin(), chosen[step].end());
    added.ends.push_back(added.expert_ids.size());
  }
  trace.layers.push_back(std::move(added));
}

// The first `prompt` tokens are of the prompt.
inline RouteTrace SmallTrace(uint32_t expert_count, uint32_t prompt,
                             const std::vector<std::vector<uint16_t>>& chosen) {
  RouteTrace trace;
  trace.turns.resize(1);
  for (uint32_t step = 0; step < chosen.size(); ++step)
    trace.steps.push_back({0, step < prompt ? Phase::kPrefill : Phase::kDecode, step});
  AddLayer(trace, 0, expert_count, chosen);
  return trace;
}

// The same numbers on every machine: those of Knuth's MMIX generator.
class SmallRandom {
 public:
  explicit SmallRandom(uint64_t seed) : state_(seed) {}
  uint32_t Below(uint32_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % limit);
  }

 private:
  uint64_t state_;
};

// `steps` lists of 1 to `top_k` ids, low ones more often.
inline std::vector<std::vector<uint16_t>> RandomChoices(SmallRandom& random, uint32_t steps,
                                                        uint32_t expert_count, uint32_t top_k) {
  std::vector<std::vector<uint16_t>> chosen(steps);
  for (auto& ids : chosen) {
    const uint32_t count = 1 + random.Below(top_k);
    while (ids.size() < count) {
      const auto id = static_cast<uint16_t>(random.Below(1 + random.Below(expert_count)));
      bool there = false;
      for (const uint16_t other : ids) there = there || other == id;
      if (!there) ids.push_back(id);
    }
  }
  return chosen;
}

}  // namespace moepack
