// Sessions with planted groups: those of group g use their own tokens and experts besides common
// ones.
#pragma once

#include <string>
#include <vector>

#include "libshard/plan/placement.h"

namespace moepack {

inline constexpr uint32_t kSampleExperts = 6;  // of each of two layers; group g owns 2 g, 2 g + 1
inline constexpr size_t kSampleGroups = 3;

// Session `number` of `group`: 40 of the tokens 10 g .. 10 g + 9, and 60 of the common ones.
inline SessionScores SampleSession(uint32_t group, uint32_t number) {
  SessionScores session;
  session.name = "s" + std::to_string(group) + "." + std::to_string(number);
  session.tokens = 100;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t expert = 0; expert < kSampleExperts; ++expert)
      session.scores.push_back(expert / 2 == group ? 8.0f + static_cast<float>(number % 3) : 1.0f);
  }
  for (uint32_t i = 0; i < 10; ++i) session.token_counts.emplace_back(10 * group + i, 4);
  for (uint32_t i = 0; i < 10; ++i) session.token_counts.emplace_back(100 + i, 6);
  return session;
}

inline ExpertScores SampleScores(uint32_t sessions_of_group = 4) {
  ExpertScores scores;
  scores.format = "moepack-statistics";
  scores.layers = {{0, kSampleExperts, 2}, {1, kSampleExperts, 2}};
  for (uint32_t number = 0; number < sessions_of_group; ++number) {
    for (uint32_t group = 0; group < kSampleGroups; ++group)
      scores.sessions.push_back(SampleSession(group, number));
  }
  return scores;
}

inline Plan SamplePlacementPlan() {
  Plan plan;
  plan.scheme = "explicit";
  plan.layers = {{0, kSampleExperts}, {1, kSampleExperts}};
  plan.top_k = {{0, 2}, {1, 2}};
  plan.groups.resize(kSampleGroups);
  for (uint32_t group = 0; group < kSampleGroups; ++group) {
    const ExpertIds ids = {2 * group, 2 * group + 1};
    plan.groups[group].owned = {{0, ids}, {1, ids}};
  }
  plan.uniform = true;
  return plan;
}

// Two groups with sessions and one without, and few rows.
inline PlacementTable SampleTable() {
  PlacementTable table;
  table.prefix_tokens = 4;
  table.margin = 1;
  table.sessions_by_group = {5, 0, 7};
  table.trial = {12, 9, 8, 7};
  table.tokens.scale = 0.25;
  table.tokens.ids = {3, 4, 200, 70000};
  table.tokens.scores = {8, 0, -8, -4, 0, 4, 1, 0, -1, -127, 0, 127};
  table.tokens.left_out = 11;
  table.centroids = PlacementCentroids{1, std::vector<uint8_t>(kSampleExperts * 3, 9)};
  table.centroids->values[0] = 255;
  table.centroids->values[2 * kSampleExperts + 1] = 255;
  return table;
}

}  // namespace moepack
