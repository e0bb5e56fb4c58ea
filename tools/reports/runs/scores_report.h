// What `moepack statistics show` prints about expert scores.
#pragma once

#include <string>

#include "libshard/base/text/json.h"
#include "libshard/stats/expert_scores.h"

namespace moepack::cli {

// Format, sessions by bucket, a line per layer, and Super Experts. Warnings are not included.
std::string ScoresText(const ExpertScores& scores);
// "moepack-statistics: 12 sessions, 3 layers, reap (...)".
std::string ScoresLine(const ExpertScores& scores);
Json ScoresReportJson(const ExpertScores& scores);

}  // namespace moepack::cli
