// Refitted distributions of an experiment: one per strategy and recipe, with one refit per
// strategy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "tools/commands/experiment/experiment_passes.h"

namespace moepack::cli {

// Where what belongs to the refit of a split lies until the experiment is complete.
std::vector<std::filesystem::path> RefitPaths(const ExperimentModels& models,
                                              const ExperimentSplit& split);

// Refits the split on the experiment's calibration texts and writes its distribution in the types
// of the recipe, "" for the source's. What an earlier run finished is taken. Returns the
// distribution's directory. Errors are those of LoadForRefit, RunRefit and WriteDistribution.
Result<std::string> MakeRefitted(const ExperimentModels& models, const ExperimentSplit& split,
                                 const std::string& recipe);

}  // namespace moepack::cli
