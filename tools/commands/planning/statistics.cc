#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/import/export.h"
#include "libshard/import/import.h"
#include "libshard/stats/statistics_file.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/statistics_options.h"
#include "tools/reports/runs/scores_report.h"

namespace moepack::cli {
namespace statistics_command {
namespace {

// ---- Where statistics go

constexpr const char* kOnStandardOutput = "-";

struct Arguments {
  std::string action;
  std::vector<std::string> files;
  SourceArguments model;  // its source is "" without --model
  std::string from, to;   // "" if they were not given
  std::optional<std::string> score, out, weighting;
  std::string plan;
  std::optional<uint64_t> budget;
  bool force = false, json = false;
};

// kInvalidArgument for an output that is an input, already exists without --force, or has a name
// that its format does not allow: `statistics` says whether it is that of `profile`.
Status CheckStatisticsOutput(const Arguments& arguments, bool statistics) {
  const std::string& out = *arguments.out;
  if (out == kOnStandardOutput) {
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

// Whether all files are statistics of `profile`, judging by their first bytes.
Result<bool> AllAreStatistics(const std::vector<std::string>& files) {
  const Importer* statistics = FindImporter(kStatisticsFormat);
  for (const std::string& path : files) {
    SHARD_TRY(const Importer* const found, RecognizeFormat(path));
    if (found != statistics) return false;
  }
  return true;
}

// Merges statistics of `profile`; those of a model other than `model`, if there is one, are
// refused.
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

// The text of the scores in another tool's format.
Result<std::string> ExportText(const Exporter& exporter, const ExpertScores& scores,
                               const Arguments& arguments, const std::optional<MoeModel>& model) {
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

// ----

constexpr const char *kShow = "show", *kMerge = "merge", *kConvert = "convert";
constexpr uint64_t kLeastBudget = 1;

std::vector<std::string> InputFormats() {
  std::vector<std::string> names;
  for (const Importer* importer : Importers()) names.emplace_back(importer->name);
  return names;
}

std::vector<std::string> OutputFormats() {
  std::vector<std::string> names = {std::string(kStatisticsFormat)};
  for (const Exporter* exporter : Exporters()) names.emplace_back(exporter->name);
  return names;
}

Error NoEffect(const char* option, const std::string& why) {
  return {Code::kInvalidArgument, Cat(option, " has no effect: ", why), "leave it out"};
}

Status CheckExportOptions(const Arguments& arguments) {
  const Exporter* exporter = FindExporter(arguments.to);
  const std::string what = Cat("the output is ", arguments.to);
  if (arguments.budget && (exporter == nullptr || !exporter->takes_budget))
    return NoEffect("--budget", what);
  if (arguments.weighting && !arguments.budget)
    return NoEffect("--weighting", "it says how a --budget is spent");
  if (!arguments.plan.empty() && (exporter == nullptr || !exporter->needs_plan))
    return NoEffect("--plan", what);
  if (exporter != nullptr && exporter->needs_plan && arguments.plan.empty())
    return Error{Code::kInvalidArgument, Cat("--to ", arguments.to, " needs --plan FILE"),
                 "the placement is that of a plan"};
  if (arguments.model.source.empty() && (arguments.budget || !arguments.plan.empty()))
    return Error{Code::kInvalidArgument,
                 Cat(arguments.budget ? "--budget" : "--plan", " needs --model SRC"),
                 "it says how large the experts are and which layers have them"};
  if (arguments.to == kStatisticsFormat && arguments.score)
    return NoEffect("--score", "statistics keep all scores");
  if (exporter != nullptr && exporter->needs_plan && arguments.score)
    return NoEffect("--score", Cat(what, ", which has no scores"));
  return Ok();
}

Status CheckAction(const Arguments& arguments) {
  const bool writes = arguments.action != kShow;
  if (!writes && arguments.out) return NoEffect("--output", "show writes no file");
  if (!writes && arguments.force) return NoEffect("--force", "show writes no file");
  if (writes && !arguments.out)
    return Error{Code::kInvalidArgument, Cat(arguments.action, " needs -o FILE")};
  if (arguments.action == kConvert) {
    if (arguments.to.empty())
      return Error{Code::kInvalidArgument, "convert needs --to FORMAT",
                   Cat("formats are ", moepack::Join(OutputFormats(), ", "))};
    return CheckExportOptions(arguments);
  }
  const std::string why = Cat(arguments.action, " converts nothing");
  if (!arguments.to.empty()) return NoEffect("--to", why);
  if (arguments.budget) return NoEffect("--budget", why);
  if (arguments.weighting) return NoEffect("--weighting", why);
  if (!arguments.plan.empty()) return NoEffect("--plan", why);
  return Ok();
}

std::optional<ScoreBasis> BasisOf(const Arguments& arguments) {
  for (size_t i = 0; arguments.score && i < kScoreBasisNames.size(); ++i) {
    if (*arguments.score == kScoreBasisNames[i]) return static_cast<ScoreBasis>(i);
  }
  return std::nullopt;
}

Result<std::optional<MoeModel>> OpenTarget(const Arguments& arguments) {
  if (arguments.model.source.empty()) return std::optional<MoeModel>();
  SHARD_TRY(MoeModel model, OpenModel(arguments.model));
  return std::optional(std::move(model));
}

std::vector<MoeLayerShape> LayersOf(const std::optional<MoeModel>& model) {
  return model ? MeasuredLayers(*model) : std::vector<MoeLayerShape>();
}

Result<ExpertScores> ReadFiles(const Arguments& arguments, const std::optional<MoeModel>& model,
                               std::optional<ScoreBasis> usual) {
  ImportOptions options{LayersOf(model), BasisOf(arguments), true, arguments.from};
  // What a format's readers expect, if the file has it.
  if (!options.basis && usual) {
    options.basis = usual;
    auto scores = ReadExpertScores(arguments.files, options);
    if (scores || scores.error().code != Code::kInvalidArgument) return scores;
    options.basis.reset();
  }
  return ReadExpertScores(arguments.files, options);
}

Result<ExpertScores> ReadScores(const Arguments& arguments, const std::optional<MoeModel>& model,
                                std::optional<ScoreBasis> usual) {
  SHARD_TRY(ExpertScores scores, ReadFiles(arguments, model, usual));
  PrintWarnings(scores.warnings);
  if (model) {
    SHARD_CHECK(
        CheckMeasuredOn(moepack::Join(arguments.files, ", "), scores.router_digest, *model));
  }
  return scores;
}

Status Report(const Arguments& arguments, uint64_t bytes, Json report) {
  if (arguments.json) {
    report["output"] = {{"file", *arguments.out}, {"bytes", bytes}};
    return WriteJsonResult(report);
  }
  return WriteReport(Cat("wrote ", Shown(*arguments.out), " (", FormatCount(bytes), " bytes)\n"));
}

Result<int> WriteMerged(const Arguments& arguments, const std::optional<MoeModel>& model) {
  SHARD_TRY(const Statistics statistics, MergeFiles(arguments.files, model));
  const std::string& out = *arguments.out;
  if (out == kOnStandardOutput) {
    SHARD_CHECK(WriteJsonText(StatisticsBytes(out, statistics)));
    return kExitDone;
  }
  SHARD_CHECK(CheckInterrupt());
  SHARD_TRY(const uint64_t bytes, WriteStatistics(out, statistics, arguments.force));
  SHARD_CHECK(Report(arguments, bytes,
                     {{"format", kStatisticsFormat}, {"sessions", statistics.sessions.size()}}));
  return kExitDone;
}

// What is not statistics of `profile` is text, whatever its name is.
Status CheckNameOfText(const std::string& out) {
  if (!out.ends_with(kZstdSuffix)) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("-o: expected a name that does not end in .zst, because the output is text, "
                   "found ",
                   Quoted(out)),
               "only statistics of `moepack profile` with all their scores are compressed"};
}

Result<int> WriteExported(const Arguments& arguments, const Exporter& exporter,
                          const std::optional<MoeModel>& model) {
  SHARD_CHECK(CheckNameOfText(*arguments.out));
  SHARD_TRY(const ExpertScores scores, ReadScores(arguments, model, exporter.basis));
  SHARD_TRY(const std::string text, ExportText(exporter, scores, arguments, model));
  Json report = {{"format", exporter.name},
                 {"basis", kScoreBasisNames[static_cast<size_t>(scores.basis)]},
                 {"sessions", scores.sessions.size()},
                 {"warnings", scores.warnings}};
  if (*arguments.out == kOnStandardOutput) {
    SHARD_CHECK(WriteJsonText(text));
    return kExitDone;
  }
  SHARD_CHECK(CheckInterrupt());
  SHARD_CHECK(WriteTextFile(*arguments.out, text, arguments.force));
  SHARD_CHECK(Report(arguments, text.size(), std::move(report)));
  return kExitDone;
}

Result<int> Show(const Arguments& arguments, const std::optional<MoeModel>& model) {
  SHARD_TRY(const ExpertScores scores, ReadScores(arguments, model, std::nullopt));
  SHARD_CHECK(arguments.json ? WriteJsonResult(ScoresReportJson(scores))
                             : WriteReport(ScoresText(scores), ScoresLine(scores)));
  return kExitDone;
}

// Statistics of `profile` are merged as such, with everything they hold, unless one score is
// requested.
Result<bool> StaysStatistics(const Arguments& arguments) {
  const bool wanted = arguments.to == kStatisticsFormat;
  if (!wanted && (arguments.action != kMerge || arguments.score)) return false;
  SHARD_TRY(const bool all, AllAreStatistics(arguments.files));
  if (all || !wanted) return all;
  return Error{Code::kUnsupported,
               "--to moepack-statistics works only with statistics of `moepack profile`",
               "they have no gates, norms or peaks: --to moepack-scores keeps what they have"};
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckAction(arguments));
  SHARD_TRY(const bool statistics, StaysStatistics(arguments));
  if (arguments.out) SHARD_CHECK(CheckStatisticsOutput(arguments, statistics));
  SHARD_TRY(const std::optional<MoeModel> model, OpenTarget(arguments));
  if (arguments.action == kShow) return Show(arguments, model);
  if (statistics) return WriteMerged(arguments, model);
  const std::string_view format =
      arguments.to.empty() ? kScoresExporter.name : std::string_view(arguments.to);
  return WriteExported(arguments, *FindExporter(format), model);
}

void AddInput(CLI::App& app, Arguments& arguments) {
  app.add_option("ACTION", arguments.action,
                 "show prints what files hold; merge joins the sessions of several; convert writes "
                 "another format.")
      ->required()
      ->check(OneOf({kShow, kMerge, kConvert}));
  app.add_option("FILE", arguments.files,
                 "Statistics of `moepack profile` or of other tools, whose format is recognized by "
                 "their content.")
      ->required();
  StartSection(app, "Input");
  app.add_option("--model", arguments.model.source,
                 "The model that was measured: a checkpoint or GGUF as for plan. Files that do not "
                 "fit it are refused; some formats do not say layers or experts and need it.")
      ->type_name("SRC");
  app.add_option("--from", arguments.from,
                 Cat("Read the files as this format: ", moepack::Join(InputFormats(), ", "), "."))
      ->type_name("FORMAT")
      ->check(OneOf(InputFormats()));
  app.add_option("--score", arguments.score,
                 "What to read where files have several scores: count, gate, or reap (gate x norm "
                 "of the output). Default: the last of these that is there; for formats that hold "
                 "counts, count.")
      ->type_name("KIND")
      ->check(OneOf({std::string(kScoreBasisNames[0]), std::string(kScoreBasisNames[1]),
                     std::string(kScoreBasisNames[2])}));
  AddModelOptions(app, arguments.model.model);
  AddRemoteOptions(app, arguments.model.remote);
  for (const char* option : {"--family", "--config", "--plain-http", "--endpoint",
                             "--allow-full-download", "--cache", "--cache-size"})
    app.get_option(option)->needs("--model");
}

void AddOutput(CLI::App& app, Arguments& arguments) {
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments.out,
                 "Write here; \"-\" is standard output. Statistics are written as JSON, or "
                 "compressed with zstd as NAME.json.zst.")
      ->type_name("FILE");
  app.add_option("--to", arguments.to,
                 Cat("What convert writes: ", moepack::Join(OutputFormats(), ", "), "."))
      ->type_name("FORMAT")
      ->check(OneOf(OutputFormats()));
  app.add_option("--plan", arguments.plan,
                 "The plan of a placement (--to sglang-placement), as `moepack plan` writes it.")
      ->type_name("FILE");
  app.add_option("--budget", arguments.budget,
                 "With --to hot-cache: mark the experts that fit into SIZE as hot.")
      ->type_name("SIZE")
      ->transform(AsBytes(kLeastBudget));
  app.add_option("--weighting", arguments.weighting,
                 "How --budget is spent: flat (the same on every layer) or mass (on the best "
                 "experts of all layers). Default: flat.")
      ->type_name("KIND")
      ->check(OneOf({kHotWeightingNames[0], kHotWeightingNames[1]}));
  AddForce(app, arguments.force);
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddInput(app, *arguments);
  AddOutput(app, *arguments);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace statistics_command

constinit const Command kStatistics = {
    "statistics",
    "Shows, merges and converts statistics of routing, ours and other tools'",
    "Reads statistics of `moepack profile`, importance matrices, hot-cache profiles, dumps of "
    "SGLang, REAP's observations, expert lists and rankings. show prints layers, sessions and what "
    "is doubtful; merge joins sessions of one model; convert writes what caches and other runtimes "
    "read. docs/statistics.md says what each format holds and loses.",
    {"moepack statistics show fixtures/statistics/profile.json --model fixtures/tiny-moe",
     "moepack statistics convert fixtures/statistics/imatrix.gguf --to hot-cache -o hot-cache.json "
     "--force"},
    {"--output", "--from", "--to", "--model", "--plan", "--score", "--budget", "--json"},
    statistics_command::Bind};

}  // namespace moepack::cli
