#include "tools/commands/experiment/experiment_plans.h"

#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/sizing/node_bytes.h"
#include "tools/base/output.h"
#include "tools/options/statistics_options.h"
#include "tools/reports/node_report.h"

namespace moepack::cli {
namespace {

uint64_t MostEligible(const Plan& plan) {
  uint64_t most = 0;
  for (size_t group = 0; group < plan.groups.size(); ++group)
    most = std::max(most, CountNodeExperts(plan, group).eligible.most);
  return most;
}

Result<uint64_t> LargestNodeOf(const NodeSizer& sizer, const Plan& plan) {
  SHARD_TRY(const auto files, sizer.BundleFiles(plan));
  const PartBytes bytes = BytesOfFiles(files, plan);
  uint64_t largest = 0;
  for (size_t group = 0; group < plan.groups.size(); ++group)
    largest = std::max(largest, bytes.Node(group));
  return largest;
}

// The comparison is fair if nodes are equally large.
void WarnOfSizes(const std::vector<ExperimentSplit>& splits) {
  std::vector<std::string> warnings;
  for (const ExperimentSplit& split : splits) {
    if (split.node_bytes.front() == splits.front().node_bytes.front()) continue;
    warnings.push_back(Cat(split.strategy, ": a node has ", FormatCount(split.node_bytes.front()),
                           " bytes, of ", splits.front().strategy, " ",
                           FormatCount(splits.front().node_bytes.front()),
                           ": the comparison is not at equal bytes"));
  }
  PrintWarnings(warnings);
}

}  // namespace

QuantizeOptions RecipeFor(const ExperimentArguments& arguments, const std::string& recipe) {
  QuantizeOptions options;
  options.recipe.recipe = recipe;
  options.imatrix_file = arguments.imatrix;
  return options;
}

Result<std::vector<ExperimentSplit>> MakeSplits(const MoeModel& model,
                                                const ExperimentArguments& arguments) {
  std::vector<NodeSizer> sizers;
  SHARD_TRY(NodeSizer stored, NodeSizer::Make(model, std::nullopt));
  sizers.push_back(std::move(stored));
  for (const std::string& recipe : arguments.recipes) {
    SHARD_TRY(NodeSizer sizer, NodeSizer::Make(model, RecipeFor(arguments, recipe)));
    sizers.push_back(std::move(sizer));
  }
  std::vector<ExperimentSplit> splits;
  for (const std::string& strategy : arguments.strategies) {
    PlanOptions options = arguments.plan;
    options.partition = strategy;
    ExperimentSplit split;
    split.strategy = strategy;
    SHARD_TRY(split.plan, PlanFromOptions(model, options));
    SHARD_TRY(const std::string text, PlanText(model, split.plan));
    split.digest = Sha256Hex(text);
    split.eligible = MostEligible(split.plan);
    for (const NodeSizer& sizer : sizers) {
      SHARD_TRY(const uint64_t bytes, LargestNodeOf(sizer, split.plan));
      split.node_bytes.push_back(bytes);
    }
    splits.push_back(std::move(split));
  }
  WarnOfSizes(splits);
  return splits;
}

}  // namespace moepack::cli
