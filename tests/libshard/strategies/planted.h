// Scores of generated sessions, with a structure that a planner should find.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/stats/expert_scores.h"
#include "libshard/strategies/split_mix.h"
#include "libshard/strategies/strategy.h"

namespace moepack {

inline ExpertScores ScoresOf(const std::vector<MoeLayerShape>& layers,
                             const std::vector<std::vector<float>>& sessions) {
  ExpertScores scores;
  scores.format = "test";
  scores.digest = std::string(32, '0');
  scores.layers = layers;
  for (size_t i = 0; i < sessions.size(); ++i)
    scores.sessions.push_back({Cat("session", i), "", 1000, sessions[i], {}});
  return scores;
}

// `kinds` kinds of sessions. In each layer every kind has its own experts, drawn anew for each
// layer, which take most of its score; a few more are used by all; the rest is noise.
struct Planted {
  uint32_t layers = 6, experts = 24, kinds = 3, sessions = 60;
  uint32_t own = 6, shared = 2;  // experts of a kind, and of all, in each layer
  uint64_t seed = 1;

  ExpertScores Make() const {
    SplitMix64 random(seed);
    const auto noise = [&] { return static_cast<float>(random.Below(1000)) / 1000; };
    ExpertScores scores;
    scores.format = "test";
    scores.digest = std::string(32, '0');
    std::vector<ExpertIds> order;  // shared experts first, then those of kind 0, of kind 1, ...
    for (uint32_t layer = 0; layer < layers; ++layer) {
      scores.layers.push_back({2 * layer, experts, 2});
      order.emplace_back();
      for (uint32_t id = 0; id < experts; ++id) order.back().push_back(id);
      for (size_t i = experts; i-- > 1;)
        std::swap(order.back()[i], order.back()[random.Below(i + 1)]);
    }
    for (uint32_t session = 0; session < sessions; ++session) {
      const uint32_t kind = session % kinds;
      SessionScores made{Cat("s", session), Cat("kind", kind), 1000, {}, {}};
      for (uint32_t layer = 0; layer < layers; ++layer) {
        std::vector<float> row(experts);
        for (uint32_t i = 0; i < experts; ++i) {
          const bool is_shared = i < shared;
          const bool is_own = !is_shared && (i - shared) / own == kind;
          row[order[layer][i]] = (is_shared ? 20 : is_own ? 10 : 0.5f) * (0.5f + noise());
        }
        made.scores.insert(made.scores.end(), row.begin(), row.end());
      }
      scores.sessions.push_back(std::move(made));
    }
    return scores;
  }
};

inline StrategyInput InputOf(const ExpertScores& scores, uint32_t groups, uint32_t room) {
  StrategyInput input;
  input.scores = &scores;
  for (size_t i = 0; i < scores.sessions.size(); ++i) input.sessions.push_back(i);
  input.rooms.assign(groups, std::vector<uint32_t>(scores.layers.size(), room));
  input.pinned.resize(scores.layers.size());
  input.barred.resize(scores.layers.size());
  return input;
}

}  // namespace moepack
