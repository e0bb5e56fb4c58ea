// The plans of an experiment: one per strategy, all with equally many experts on a node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"
#include "tools/commands/experiment/experiment_arguments.h"

namespace moepack::cli {

struct ExperimentSplit {
  std::string strategy;
  Plan plan;
  std::string digest;                // of its plan.json
  uint64_t eligible = 0;             // experts of a layer on the node that may pick from the most
  std::vector<uint64_t> node_bytes;  // of the largest node: as stored, then per recipe
};

// Makes the plan of every strategy and measures its nodes. Warnings are printed.
Result<std::vector<ExperimentSplit>> MakeSplits(const MoeModel& model,
                                                const ExperimentArguments& arguments);

// The types of a recipe.
QuantizeOptions RecipeFor(const ExperimentArguments& arguments, const std::string& recipe);

}  // namespace moepack::cli
