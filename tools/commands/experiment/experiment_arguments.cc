#include "tools/commands/experiment/experiment_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/partition.h"
#include "libshard/recipe/recipe_list.h"
#include "manifest/document/manifest.h"
#include "tools/base/sections.h"
#include "tools/options/given_once.h"
#include "tools/options/options.h"
#include "tools/options/quantize_options.h"
#include "tools/options/refit_arguments.h"
#include "tools/options/statistics_options.h"

namespace moepack::cli {
namespace {

constexpr const char* kPlanFormat = "moepack-experiment-plan";
constexpr uint64_t kPlanVersion = 1;
constexpr uint32_t kMostRaceTokens = 1u << 20;
constexpr uint32_t kMostLooks = 100;
constexpr uint64_t kMostContext = 1u << 24;
constexpr uint64_t kMostTokens = UINT32_MAX;

CLI::Validator AsPositive() {
  const auto check = [](std::string& text) -> std::string {
    double value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc() && end == text.data() + text.size() && value > 0 &&
        std::isfinite(value))
      return "";
    return Cat("expected a number above 0, found ", Quoted(text));
  };
  return CLI::Validator(check, "");
}

// The file of an experiment, whose values are used for options that were not given.
class PlanReader {
 public:
  PlanReader(const CLI::App& app, const Json& document, const std::string& where)
      : app_(app), document_(document), fields_(document, where) {}

  // All keys that a plan may have are known; the rest is refused.
  Status CheckKeys() const {
    for (const auto& [key, value] : document_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      Error error = NotOneOf(fields_.where(), {known_.begin(), known_.end()}, key);
      error.code = Code::kCorrupt;
      return error;
    }
    return Ok();
  }

  Status Text(const char* key, const char* option, std::string& value) {
    if (!Wanted(key, option)) return Ok();
    SHARD_TRY(value, fields_.String(key));
    return Ok();
  }

  Status Texts(const char* key, const char* option, std::vector<std::string>& values) {
    if (!Wanted(key, option)) return Ok();
    SHARD_TRY(const Json* list, fields_.Array(key));
    values.clear();
    for (const Json& value : *list) {
      if (!value.is_string()) return fields_.Wrong(key, "a list of texts");
      values.push_back(value.get<std::string>());
    }
    return Ok();
  }

  Result<std::optional<uint32_t>> Count(const char* key, const char* option, uint64_t least,
                                        uint64_t most) {
    if (!Wanted(key, option)) return std::optional<uint32_t>();
    SHARD_TRY(const uint64_t value, fields_.Unsigned(key));
    if (value >= least && value <= most) return std::optional(static_cast<uint32_t>(value));
    return fields_.Wrong(key, Cat("a number from ", least, " to ", most).c_str());
  }

  Status Positive(const char* key, const char* option, double& value) {
    if (!Wanted(key, option)) return Ok();
    SHARD_TRY(value, fields_.Number(key));
    if (value > 0) return Ok();
    return fields_.Wrong(key, "a number above 0");
  }

 private:
  bool Wanted(const char* key, const char* option) {
    known_.emplace_back(key);
    const bool given = option[0] != '\0' && app_.get_option(option)->count() > 0;
    return !given && fields_.Has(key);
  }

  const CLI::App& app_;
  const Json& document_;
  JsonFields fields_;
  std::vector<std::string> known_ = {"format", "version"};
};

Status ReadValues(PlanReader& plan, ExperimentArguments& arguments) {
  SHARD_CHECK(plan.Text("model", "", arguments.runtime.source));
  SHARD_CHECK(plan.Texts("statistics", "--statistics", arguments.plan.statistics_files));
  SHARD_CHECK(plan.Texts("held_out", "--text", arguments.texts.texts));
  SHARD_CHECK(plan.Texts("strategies", "--strategies", arguments.strategies));
  SHARD_CHECK(plan.Texts("recipes", "--recipes", arguments.recipes));
  SHARD_CHECK(plan.Text("imatrix", "--imatrix", arguments.imatrix));
  SHARD_CHECK(plan.Texts("calibrate", "--calibrate", arguments.calibrate.texts.texts));
  SHARD_TRY(const auto tokens,
            plan.Count("calibrate_most_tokens", "--calibrate-most-tokens", 1, kMostTokens));
  if (tokens) arguments.calibrate.options.tokens = *tokens;
  SHARD_CHECK(plan.Texts("refit", "--refit-text", arguments.refit_texts));
  SHARD_CHECK(plan.Texts("refit_steps", "--steps", arguments.refit.steps));
  SHARD_TRY(const auto updates, plan.Count("refit_updates", "--updates", 1, runtime::kMostUpdates));
  if (updates) arguments.refit.updates = *updates;
  SHARD_TRY(const auto groups, plan.Count("groups", "--groups", 1, kMaxGroups));
  if (groups) arguments.plan.groups = *groups;
  SHARD_TRY(const auto eligible, plan.Count("eligible", "--eligible", 1, kMaxGroups));
  if (eligible) arguments.plan.eligible = *eligible;
  SHARD_TRY(const auto context, plan.Count("context", "--context", 2, kMostContext));
  if (context) arguments.eval.context = *context;
  SHARD_TRY(const auto race, plan.Count("race_tokens", "--race-tokens", 1, kMostRaceTokens));
  if (race) arguments.race_tokens = *race;
  SHARD_TRY(const auto looks, plan.Count("looks", "--looks", 1, kMostLooks));
  if (looks) arguments.looks = *looks;
  SHARD_CHECK(plan.Positive("until_error", "--until-error", arguments.until_error));
  return plan.CheckKeys();
}

Status ReadPlan(const CLI::App& app, ExperimentArguments& arguments) {
  arguments.experiment = std::exchange(arguments.runtime.source, "");
  const std::string& path = arguments.experiment;
  SHARD_TRY(const Json document, ReadJsonFile(path));
  if (!document.is_object() || TextMember(document, "format") != kPlanFormat)
    return Error{
        Code::kCorrupt, Cat(path, ": format: expected \"", kPlanFormat, "\", found another file"),
        "docs/experiment.md describes the file; a model is named by its directory or GGUF"};
  SHARD_TRY(const uint64_t version, JsonFields(document, path).Unsigned("version"));
  if (version != kPlanVersion)
    return Error{Code::kUnsupported,
                 Cat(path, ": version: expected ", kPlanVersion, ", found ", version)};
  PlanReader plan(app, document, path);
  SHARD_CHECK(ReadValues(plan, arguments));
  if (!arguments.runtime.source.empty()) return Ok();
  return Error{Code::kCorrupt, Cat(path, ": model: expected a path, found none")};
}

Status CheckModel(const ExperimentArguments& arguments) {
  const std::string& source = arguments.runtime.source;
  SHARD_TRY(const bool distribution, IsThere(fs::path(source) / manifest::kManifestFile));
  if (!distribution) return CheckRuntimeOptions(arguments.runtime.source, arguments.runtime, "");
  return Error{Code::kInvalidArgument,
               Cat(source, " is a distribution, which is already split; experiment needs a model"),
               "name the model that it was made from, or use `moepack eval`"};
}

Result<const Partition*> CheckStrategy(const ExperimentArguments& arguments,
                                       const std::string& strategy) {
  const auto choice = ParsePartition(strategy);
  if (!choice) return NotOneOf("--strategies", PartitionsWithoutFile(), strategy);
  const Partition& partition = *choice->partition;
  if (partition.takes_file)
    return Error{Code::kInvalidArgument,
                 Cat("--strategies: ", Quoted(strategy), " needs a file and cannot be compared")};
  if (partition.by_scores && arguments.plan.statistics_files.empty())
    return Error{Code::kInvalidArgument,
                 Cat("--strategies: ", Quoted(strategy), " needs --statistics FILE"),
                 "`moepack profile` measures them"};
  return &partition;
}

Status CheckStrategies(const ExperimentArguments& arguments) {
  SHARD_CHECK(CheckGivenOnce("--strategies", arguments.strategies));
  // Some strategies may ignore these as long as another one uses them.
  PlanOptions each = arguments.plan;
  each.seed.reset();
  each.pin_super = true;
  bool random_starts = false, by_scores = false;
  for (const std::string& strategy : arguments.strategies) {
    SHARD_TRY(const Partition* const partition, CheckStrategy(arguments, strategy));
    each.partition = strategy;
    SHARD_CHECK(CheckPlanOptions(each));
    random_starts = random_starts || partition->random_starts;
    by_scores = by_scores || partition->by_scores;
  }
  if (!by_scores && !arguments.plan.pin_super)
    return Error{Code::kInvalidArgument,
                 "--no-pin-super has no effect: none of the --strategies decides from statistics",
                 "leave it out"};
  if (random_starts || !arguments.plan.seed) return Ok();
  return Error{Code::kInvalidArgument,
               "--seed has no effect: none of the --strategies has random starts", "leave it out"};
}

Status CheckRefit(const ExperimentArguments& arguments) {
  const runtime::RefitOptions usual;
  const bool chosen =
      arguments.refit.steps != usual.steps || arguments.refit.updates != usual.updates;
  if (chosen && arguments.refit_texts.empty())
    return Error{Code::kInvalidArgument,
                 "--steps and --updates have no effect without --refit-text",
                 "they are those of a refit"};
  return CheckRefitSteps(arguments.refit);
}

Status CheckCalibration(const ExperimentArguments& arguments) {
  const CalibrateArguments& calibrate = arguments.calibrate;
  if (calibrate.runs() && arguments.recipes.empty())
    return Error{Code::kInvalidArgument, "--calibrate has no effect without --recipes",
                 "a recipe chooses the types that are calibrated"};
  if (calibrate.runs() || calibrate.options.tokens == 0) return Ok();
  return Error{Code::kInvalidArgument, "--calibrate-most-tokens has no effect without --calibrate",
               "--calibrate names the texts"};
}

void AddQuantizations(CLI::App& app, ExperimentArguments& arguments) {
  StartSection(app, "Conversion and quantization");
  CLI::Option* recipes =
      app.add_option("--recipes", arguments.recipes,
                     "Quantize the model to each of these as well, with and without the split: "
                     "Q4_K_M,Q8_0. Default: none.")
          ->type_name("NAME,...")
          ->delimiter(',')
          ->allow_extra_args(false);
  Offer(recipes, RecipeNames());
  app.add_option("--imatrix", arguments.imatrix, "An importance matrix for all recipes.")
      ->type_name("FILE");
  app.add_option("--calibrate", arguments.calibrate.texts.texts,
                 "Quantize to each of the recipes with error feedback on these texts as well, as "
                 "`moepack quantize --calibrate` does, and compare that with the plain form. They "
                 "may not be held-out texts. Default: no calibration.")
      ->type_name("FILE");
  app.add_option("--calibrate-most-tokens", arguments.calibrate.options.tokens,
                 "Calibrate on at most this many tokens of each bucket. Default: all.")
      ->type_name("N")
      ->transform(AsCount(1, kMostTokens));
}

void AddScoring(CLI::App& app, ExperimentArguments& arguments) {
  StartSection(app, "Scoring");
  app.add_option("--race-tokens", arguments.race_tokens,
                 "How many tokens of a session the nodes race over. Default: 32.")
      ->type_name("N")
      ->transform(AsCount(1, kMostRaceTokens));
  app.add_option("--until-error", arguments.until_error,
                 "Stop at the first look at which no row's mean KLD has a larger standard error "
                 "than this, in nats. Default: all sessions run.")
      ->type_name("NATS")
      ->transform(AsPositive());
  app.add_option("--looks", arguments.looks,
                 "How many looks --until-error may take, after equal parts of the sessions. "
                 "More looks make the intervals wider. Default: 4.")
      ->type_name("N")
      ->transform(AsCount(1, kMostLooks));
}

}  // namespace

void AddExperimentOptions(CLI::App& app, ExperimentArguments& arguments) {
  AddRuntimeSource(app, "SRC",
                   "The model: a GGUF or a safetensors checkpoint. Or the file of an experiment, "
                   "NAME.json (docs/experiment.md), which names the model and may set everything "
                   "below; options on the command line take precedence.",
                   arguments.runtime.source, arguments.runtime);
  AddTexts(app, arguments.texts);
  StartSection(app, "Split");
  app.add_option("--groups", arguments.plan.groups, "How many nodes share the experts. Default: 2.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxGroups));
  CLI::Option* strategies =
      app.add_option(
             "--strategies", arguments.strategies,
             "Partitions to compare, each with the same number of experts on a node: "
             "contiguous,ranked,session,coactivation,same (the default). The first is what the "
             "others are compared with.")
          ->type_name("NAME,...")
          ->delimiter(',')
          ->allow_extra_args(false);
  Offer(strategies, PartitionsWithoutFile());
  AddStatisticsOptions(app, arguments.plan);
  app.add_option("--refit-text", arguments.refit_texts,
                 "Refit every split on these texts too, as `moepack refit` does, and measure what "
                 "is left. They may not be held-out texts. Default: no refit.")
      ->type_name("FILE");
  AddRefitSteps(app, arguments.refit);
  AddQuantizations(app, arguments);
  AddScoring(app, arguments);
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments.out,
                 "Write everything here, NAME.json; resume from it if it exists.")
      ->type_name("FILE");
  AddForce(app, arguments.force);
  AddDryRun(app, arguments.dry_run);
  AddContext(app, "Longer sessions are scored in windows. Default: 512.", arguments.eval.context);
  AddExecutor(app, arguments.runtime);
  AddRunMemory(app, arguments.memory);
  AddJson(app, arguments.json);
}

Status CompleteExperiment(const CLI::App& app, ExperimentArguments& arguments) {
  if (arguments.runtime.source.ends_with(".json")) SHARD_CHECK(ReadPlan(app, arguments));
  if (arguments.plan.groups == 0) arguments.plan.groups = 2;
  if (arguments.strategies.empty()) arguments.strategies = ComparedPartitions();
  if (arguments.looks > 1 && arguments.until_error == 0)
    return Error{Code::kInvalidArgument, "--looks has no effect without --until-error",
                 "without a rule that may stop it there is one look, at the end"};
  if (arguments.looks == 0) arguments.looks = arguments.until_error > 0 ? kUsualLooks : 1;
  arguments.calibrate.options.context = arguments.eval.context;
  arguments.calibrate.options.executor = arguments.runtime.executor;
  arguments.calibrate.device = arguments.runtime.device.device;
  SHARD_CHECK(CheckRecipesGivenOnce("--recipes", arguments.recipes));
  if (!arguments.imatrix.empty() && arguments.recipes.empty())
    return Error{Code::kInvalidArgument, "--imatrix has no effect without --recipes"};
  for (const std::string& recipe : arguments.recipes) {
    const Result<const Recipe*> known = RequireRecipe(recipe);
    if (!known) return Error(known.error()).Within("--recipes");
  }
  SHARD_CHECK(CheckCalibration(arguments));
  SHARD_CHECK(CheckRefit(arguments));
  SHARD_CHECK(CheckModel(arguments));
  if (!arguments.out.empty() || arguments.dry_run) return CheckStrategies(arguments);
  return Error{Code::kInvalidArgument, "give a file for the results with --output",
               "-o results.json; --dry-run lists the runs"};
}

}  // namespace moepack::cli
