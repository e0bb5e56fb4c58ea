#include "tools/commands/planning/statistics_output.h"

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/stats/statistics_file.h"
#include "tools/options/output_file.h"
#include "tools/options/statistics_options.h"

namespace moepack::cli {
Status CheckStatisticsOutput(const StatisticsArguments& arguments, bool statistics) {
  const std::string& out = *arguments.out;
  if (out == kStatisticsOnStandardOutput) {
    if (!arguments.json) return Ok();
    return Error{Code::kInvalidArgument, "-o - and --json cannot be used together",
                 "standard output can carry one document: drop --json to get the file itself"};
  }
  if (statistics) SHARD_CHECK(CheckStatisticsName(out));
  std::vector<std::string> inputs = arguments.files;
  inputs.push_back(arguments.plan);
  AddNamedFiles(arguments.model.model, inputs);
  const std::string& model = arguments.model.source;
  return model.empty() ? CheckOutputFile(out, inputs, arguments.force)
                       : CheckModelOutput(out, model, inputs, arguments.force);
}

Result<bool> AllAreStatistics(const std::vector<std::string>& files) {
  const Importer* statistics = FindImporter(kStatisticsFormat);
  for (const std::string& path : files) {
    SHARD_TRY(const Importer* const found, RecognizeFormat(path));
    if (found != statistics) return false;
  }
  return true;
}

Result<Statistics> MergeFiles(const std::vector<std::string>& files,
                              const std::optional<MoeModel>& model) {
  std::optional<Statistics> merged;
  for (const std::string& path : files) {
    SHARD_TRY(Statistics statistics, ReadStatistics(path));
    if (merged) {
      SHARD_CHECK(MergeStatistics(path, statistics, *merged));
    } else {
      merged = std::move(statistics);
    }
  }
  if (!model) return *std::move(merged);
  ExpertScores shape;
  shape.layers = merged->model.layers;
  LayerCounts counts;
  for (const MoeLayerShape& layer : MeasuredLayers(*model))
    counts[layer.layer] = layer.expert_count;
  SHARD_CHECK(CheckScoresFit(files.front(), shape, counts));
  SHARD_CHECK(CheckMeasuredOn(files.front(), merged->model.router_digest, *model));
  return *std::move(merged);
}

Result<std::string> ExportText(const Exporter& exporter, const ExpertScores& scores,
                               const StatisticsArguments& arguments,
                               const std::optional<MoeModel>& model) {
  ExportOptions options;
  options.budget = arguments.budget;
  if (arguments.weighting && *arguments.weighting == kHotWeightingNames[1])
    options.weighting = HotWeighting::kMass;
  if (model) {
    for (const MoeLayer& layer : model->layers())
      options.expert_bytes[layer.layer] = layer.expert_bytes;
  }
  std::optional<Plan> plan;
  if (!arguments.plan.empty()) {
    SHARD_TRY(plan, ReadPlanFile(arguments.plan, *model));
    options.plan = &*plan;
    options.plan_file = arguments.plan;
  }
  return exporter.write(scores, options);
}

}  // namespace moepack::cli
