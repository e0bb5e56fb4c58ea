// Which sessions a plan is made from, and which it is measured on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/stats/expert_scores.h"

namespace moepack {

struct SessionSplit {
  std::vector<size_t> training, held_out;  // places in ExpertScores::sessions, ascending
};

// Holds out `per_mille` of a thousand sessions, of each bucket as many as of the others: sessions
// are put in order of bucket and digest of name, and every fifth is taken (for 200 of a thousand).
// Names decide and not places, so the same sessions are held out wherever they stand. Sessions
// without any score are in neither part. REQUIRES: per_mille < 1000.
SessionSplit SplitSessions(const ExpertScores& scores, uint32_t per_mille);

}  // namespace moepack
