// ExpertScores as a file of our own: convert and merge write it from other tools' files, with
// everything that the planner reads.
#pragma once

#include <string>

#include "libshard/base/text/json.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

inline constexpr uint32_t kScoresVersion = 1;
inline constexpr std::string_view kScoresFormat = "moepack-scores";

// Floats are written with all their digits, so that reading them back gives the same scores.
// `format` and `digest` of the scores are recorded as those of their source.
Json ScoresToJson(const ExpertScores& scores);
// The document may be hostile. The result still has to pass CheckExpertScores.
Result<ExpertScores> ScoresFromJson(const std::string& where, const Json& document);

}  // namespace moepack
