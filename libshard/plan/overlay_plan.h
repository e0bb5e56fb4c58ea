// Makes a version of the overlay for groups that are already decided: its name, its experts, and
// its fill.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

// What versions of an overlay may be called.

// Words of --overlay that name no version.
inline constexpr std::string_view kNoOverlay = "none", kAutomaticOverlay = "auto";

// Null for a text that a new version may be called; otherwise what was expected: a label (IsLabel)
// that is no word of --overlay. Distributions that older moepacks wrote may have others.
const char* ExpectedOverlayName(std::string_view text);

// Layer -> all ids of the layer, the most wanted first.
using ExpertOrder = std::map<uint32_t, std::vector<uint32_t>>;

// Reads an overlay file, in which a user lists the experts that every node holds. The overlay has
// no parent and no fill yet. kInvalidArgument if it does not fit the layers.
Result<OverlayPlan> ReadOverlayFile(const std::string& path, const LayerCounts& layers);

// The experts of each layer by the sum of their scores over all files, best first; the smaller id
// first if sums are equal. REQUIRES: `scores` is not empty, and all have the same layers and basis.
ExpertOrder OrderByScore(std::span<const ExpertScores> scores);
// The first `size` of each layer, or all if a layer has fewer.
LayerExperts FirstOf(const ExpertOrder& order, const LayerCounts& sizes);

// Moves what nodes take from the current overlay into their groups, as fill, and removes the
// overlay: every node may pick from the same experts as before. The first group becomes the owner
// of what no group owns. REQUIRES: the plan has an overlay.
Plan MergeOverlay(Plan plan);

// Sets overlay.fill, if the plan is uniform, so that all groups and layers have as many eligible
// experts as the largest has without it. The overlay's bundle holds the fill of all groups, so few
// different experts are chosen. Among equals, those that come first in `order` are chosen or, in a
// layer without one, the ids after the overlay's last, cyclically. Experts of the remainder are
// never used as fill. kInvalidArgument if a layer has too few experts.
Status FillOverlay(const Plan& plan, const ExpertOrder& order, OverlayPlan& overlay);

}  // namespace moepack
