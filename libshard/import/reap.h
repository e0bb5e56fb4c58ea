// REAP's observations, as JSON or safetensors: what its observer stores per layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "libshard/import/import.h"

namespace moepack {

// One layer: lists by their name, one number per expert (total_tokens: one number).
struct ReapLayer {
  uint64_t layer = 0;
  std::map<std::string, std::vector<double>, std::less<>> columns;
};

// Whether a list of this name is read; others, such as the matrix pairwise_expert_frequency (sums
// of two frequencies, not co-occurrences), are skipped.
bool IsReapColumn(std::string_view name);

// Uses the requested basis, or the best that every layer has.
Result<ExpertScores> ScoresFromReap(const std::string& where, std::vector<ReapLayer> layers,
                                    const ImportOptions& options);

}  // namespace moepack
