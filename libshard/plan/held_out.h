// Which sessions a plan is made from, and which it is measured on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/stats/expert_scores.h"

namespace moepack {

struct SessionSplit {
  std::vector<size_t> training, held_out;  // indexes into ExpertScores::sessions, ascending
};

// Holds out `per_mille` of every thousand sessions, equally from every bucket: sessions are sorted
// by bucket and digest of name, and (for 200 per mille) every fifth is taken. Names decide, not
// positions, so the same sessions are held out in any order. Sessions without scores are in neither
// part. REQUIRES: per_mille < 1000.
SessionSplit SplitSessions(const ExpertScores& scores, uint32_t per_mille);

}  // namespace moepack
