#include "tools/commands/statistics_output.h"

#include <algorithm>

#include "libshard/base/file.h"
#include "libshard/base/local_tree.h"
#include "libshard/base/text.h"
#include "libshard/stats/statistics_file.h"
#include "manifest/write/output_path.h"

namespace moepack::cli {
namespace {

Error NotThere(const std::string& out, const char* why, const char* hint) {
  return {Code::kInvalidArgument, Cat(out, " ", why), hint};
}

Status CheckIsNoInput(const StatisticsArguments& arguments) {
  const std::string& out = *arguments.out;
  std::vector<std::string> inputs = arguments.files;
  if (!arguments.plan.empty()) inputs.push_back(arguments.plan);
  std::error_code ignored;
  for (const std::string& input : inputs) {
    if (input == out || fs::equivalent(input, out, ignored))
      return NotThere(out, "is also an input",
                      "choose another output; inputs are never overwritten");
  }
  if (arguments.model.source.empty()) return Ok();
  return manifest::CheckOutputApart(out, arguments.model.source, {});
}

}  // namespace

Status CheckStatisticsOutput(const StatisticsArguments& arguments, bool binary) {
  const std::string& out = *arguments.out;
  if (out == kStatisticsOnStandardOutput) {
    if (!arguments.json) return Ok();
    return Error{Code::kInvalidArgument, "-o - and --json cannot be used together",
                 "standard output can carry one document: drop --json to get the file itself"};
  }
  if (binary && !out.ends_with(".json") && !out.ends_with(".bin"))
    return Error{Code::kInvalidArgument,
                 Cat("-o: expected a name that ends in .json or .bin, or -, found ", Quoted(out))};
  SHARD_CHECK(CheckIsNoInput(arguments));
  std::error_code ignored;
  if (fs::is_directory(out, ignored))
    return NotThere(out, "is a directory", "-o takes the name of a file");
  const fs::path folder = fs::path(out).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    return NotThere(out, "lies in a directory that does not exist", "make the directory first");
  if (arguments.force || !fs::exists(out, ignored)) return Ok();
  return NotThere(out, "already exists", "--force replaces it, and -o names another file");
}

Result<bool> AllAreStatistics(const std::vector<std::string>& files) {
  const Importer* statistics = FindImporter(kStatisticsFormat);
  for (const std::string& path : files) {
    SHARD_TRY(const moepack::Source source, LocalSource(path));
    if (source.file.empty())
      return Error{Code::kInvalidArgument,
                   Cat(path, ": expected a file of statistics, found a directory")};
    SHARD_TRY(const ByteSourcePtr file, source.tree->Open(source.file));
    std::string head(std::min<uint64_t>(file->size(), kImportHead), '\0');
    SHARD_CHECK(file->ReadAt(0, std::as_writable_bytes(std::span(head))));
    if (!statistics->looks_like(head)) return false;
  }
  return true;
}

Result<Statistics> MergeFiles(const std::vector<std::string>& files,
                              const std::vector<MoeLayerShape>& layers) {
  std::optional<Statistics> merged;
  for (const std::string& path : files) {
    SHARD_TRY(Statistics statistics, ReadStatistics(path));
    if (merged) {
      SHARD_CHECK(MergeStatistics(path, statistics, *merged));
    } else {
      merged = std::move(statistics);
    }
  }
  if (layers.empty()) return *std::move(merged);
  ExpertScores shape;
  shape.layers = merged->model.layers;
  LayerCounts counts;
  for (const MoeLayerShape& layer : layers) counts[layer.layer] = layer.expert_count;
  SHARD_CHECK(CheckScoresFit(files.front(), shape, counts, ""));
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
  }
  return exporter.write(scores, options);
}

}  // namespace moepack::cli
