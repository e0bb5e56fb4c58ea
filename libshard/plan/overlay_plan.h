// Makes a version of the overlay for groups that are decided already.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

// Layer -> all ids of the layer, the most wanted first.
using ExpertOrder = std::map<uint32_t, std::vector<uint32_t>>;

// Reads an overlay file, in which a user lists the experts that every node holds. The overlay has
// no parent and no fill yet. kInvalidArgument for what does not fit the layers.
Result<OverlayPlan> ReadOverlayFile(const std::string& path, const LayerCounts& layers);

// The experts of each layer by the sum of their scores over all files, best first, and the smaller
// id first where sums are equal. REQUIRES: `scores` is not empty, and all have the same layers and
// basis.
ExpertOrder OrderByScore(std::span<const ExpertScores> scores);
// The first `size` of each layer, or all of a layer that has fewer.
LayerExperts FirstOf(const ExpertOrder& order, const LayerCounts& sizes);

// Puts what nodes take from the current overlay into their groups, as fill, and leaves no overlay:
// every node may pick among the same experts as before. What no group owns becomes the first
// group's own. REQUIRES: the plan has an overlay.
Plan MergeOverlay(Plan plan);

// Sets overlay.fill, if the plan is uniform, so that all groups and layers have as many eligible
// experts as the largest has without it. The overlay's bundle holds the fill of all groups, so few
// different experts are chosen; among equals those that come first in `order`, and in a layer
// without one the ids that follow the overlay's last, cyclically. Experts of the remainder are no
// fill. kInvalidArgument when a layer has too few experts.
Status FillOverlay(const Plan& plan, const ExpertOrder& order, OverlayPlan& overlay);

}  // namespace moepack
