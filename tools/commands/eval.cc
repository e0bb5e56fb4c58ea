#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "libshard/plan/partition.h"
#include "libshard/stats/session_digest.h"
#include "manifest/document/made_from.h"
#include "manifest/document/manifest.h"
#include "manifest/document/pull_lock.h"
#include "manifest/document/quality.h"
#include "manifest/write/output_path.h"
#include "manifest/write/record_quality.h"
#include "runtime-shim/eval/participants.h"
#include "runtime-shim/eval/quality.h"
#include "runtime-shim/model/bos_token.h"
#include "runtime-shim/profile/identity.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/runtime_options.h"
#include "tools/options/session_texts.h"
#include "tools/reports/ci_report.h"
#include "tools/reports/runs/eval_report.h"

namespace moepack::cli {
namespace eval_command {
namespace {

// ---- --record

// A directory that was pulled with an older overlay is evaluated with that one.
Status CheckTakesTheCurrentOverlay(const std::string& source) {
  const LocalTree tree(source);
  SHARD_TRY(const manifest::Manifest read, manifest::ReadManifest(tree));
  SHARD_TRY(const manifest::DefaultOverlay taken, manifest::OverlayByDefault(tree, read.plan));
  if (taken.note.empty()) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("--record needs the current overlay, with which nodes are made; ", taken.note),
               "pull the current overlay, too, with --overlay"};
}

// What `--record` needs to know before the evaluation begins; no value without the flag.
// kInvalidArgument if the source is not a distribution, or is evaluated with an overlay other than
// its own.
Result<std::optional<std::string>> BeginRecording(bool record, const RuntimeArguments& arguments) {
  if (!record) return std::optional<std::string>();
  SHARD_TRY(const bool distribution,
            moepack::IsThere(fs::path(arguments.source) / manifest::kManifestFile));
  if (!distribution) {
    return Error{
        Code::kInvalidArgument,
        Cat("--record needs a distribution, and ", Quoted(arguments.source), " is not one"),
        "--record writes into distribution.json: give the directory that has one"};
  }
  if (!arguments.load.overlay || !arguments.load.overlay_version.empty()) {
    return Error{Code::kInvalidArgument,
                 "--record cannot be combined with --overlay or --no-overlay: it records the "
                 "distribution as nodes get it",
                 "leave out --overlay and --no-overlay"};
  }
  SHARD_CHECK(CheckTakesTheCurrentOverlay(arguments.source));
  // Taken before the evaluation, which may last hours, and compared after it.
  SHARD_TRY(std::string digest, manifest::ManifestFileDigest(arguments.source));
  return std::optional(std::move(digest));
}

// Writes the record and says on stderr what changed. `begun` is what BeginRecording returned.
Status FinishRecording(const std::string& distribution, const std::string& begun,
                       const manifest::QualityRecord& quality) {
  SHARD_TRY(const manifest::RecordReport report,
            manifest::RecordQuality(distribution, quality, begun));
  if (!report.changed) {
    PrintMessage(Cat("this result is recorded in ", moepack::Shown(distribution),
                     "/distribution.json already"));
    return Ok();
  }
  const manifest::UpdatedReadme& readme = report.readme;
  PrintMessage(Cat("recorded in ", moepack::Shown(distribution), "/distribution.json",
                   readme.text ? " and README.md" : "", "; sha256:", report.digest_before,
                   " is now sha256:", report.digest,
                   readme.text && readme.edited ? "; your own text in README.md is kept" : ""));
  if (!readme.shows_changes)
    PrintWarnings({manifest::StaleReadmeWarning(Cat(distribution, "/", manifest::kReadmeFile))});
  if (report.is_signed) PrintWarnings({manifest::StaleSignatureWarning(distribution)});
  if (report.pulled) {
    PrintWarnings({Cat(distribution,
                       " was pulled: its signatures cover the distribution as it was, so "
                       "publish and sign it again")});
  }
  return Ok();
}

// ----

using runtime::EvalInput;
using runtime::EvalOptions;

constexpr uint32_t kMaxRaceTokens = 1u << 20;
struct Arguments {
  RuntimeArguments runtime;
  TextArguments texts;
  std::string against;
  std::vector<std::string> gates;
  EvalOptions eval;
  uint32_t race_tokens = 32;
  bool race_given = false, record = false;
  std::optional<uint64_t> memory;
  ReportArguments report;
};

uint32_t GroupsOf(const LoadedModel& own) {
  return static_cast<uint32_t>(own.weights->plan ? own.weights->plan->groups.size() : 0);
}

bool HoldsAll(const runtime::Weights& weights, const LayerExperts& loaded) {
  return std::all_of(weights.moe_layers.begin(), weights.moe_layers.end(), [&](const auto& layer) {
    return moepack::IdsOf(loaded, layer.first).size() == layer.second;
  });
}

// The unmasked run of the distribution's own weights needs every expert; a node's directory is a
// separate model, with all the experts that it was written with.
EvalInput MakeInput(const LoadedModel& loaded, const LoadedModel* against,
                    const EvalOptions& options) {
  const runtime::Weights& weights = *loaded.weights;
  EvalInput input;
  for (const auto& [layer, expert_count] : weights.moe_layers) {
    input.routers[layer] = loaded.model->spec().layer[layer].router;
  }
  input.bos = runtime::BosToken(weights.metadata);
  if (options.generate > 0) input.is_end = EndsGeneration(weights);
  LayerExperts all = runtime::EligibleExperts(weights, std::nullopt, true);
  // A refit gave every group its own experts, so the whole model exists only in the source.
  if (weights.refit_version.empty() && HoldsAll(weights, all)) {
    input.full = runtime::Participate("unmasked", *loaded.model, std::move(all), options);
  }
  if (against) {
    input.reference = runtime::ParticipateAsReference(
        *against->model, runtime::EligibleExperts(*against->weights, std::nullopt, true), options);
  }
  if (weights.plan) input.placement = weights.plan->placement;
  for (uint32_t group = 0; group < GroupsOf(loaded); ++group) {
    if (!weights.FindGroup(group)) continue;
    input.groups.push_back(runtime::Participate(Cat("group ", group), *loaded.model,
                                                runtime::EligibleExperts(weights, group, true),
                                                options, group));
  }
  return input;
}

Error Differs(const Arguments& arguments, const char* what, uint64_t expected, uint64_t found) {
  return {Code::kMismatch,
          Cat(arguments.against, ": ", what, ": expected ", expected, " as in ",
              arguments.runtime.source, ", found ", found),
          "--against takes the model that the distribution was made from"};
}

Status CheckComparable(const Arguments& arguments, const LoadedModel& loaded,
                       const LoadedModel& against) {
  if (loaded.model->vocabulary() != against.model->vocabulary())
    return Differs(arguments, "vocabulary", loaded.model->vocabulary(),
                   against.model->vocabulary());
  for (const auto& [layer, expert_count] : loaded.weights->moe_layers) {
    const auto other = against.weights->moe_layers.find(layer);
    const uint64_t found = other == against.weights->moe_layers.end() ? 0 : other->second;
    if (found != expert_count)
      return Differs(arguments, Cat("layer ", layer, ": experts").c_str(), expert_count, found);
  }
  return Ok();
}

// Says why there is no unmasked run.
Error NotWhole(const LoadedModel& own, const std::string& thing) {
  const runtime::Weights& weights = *own.weights;
  const LayerExperts all = runtime::EligibleExperts(weights, std::nullopt, true);
  uint64_t missing = 0;
  for (const auto& [layer, count] : weights.moe_layers)
    missing += count - moepack::IdsOf(all, layer).size();
  bool every_group = true;
  for (uint32_t group = 0; group < GroupsOf(own); ++group)
    every_group = every_group && weights.FindGroup(group) != nullptr;
  return {Code::kInvalidArgument,
          Cat(thing, ": experts: expected all of them, found ",
              !weights.refit_version.empty()
                  ? "refitted ones"
                  : Cat(missing, every_group ? " on no node" : " that are not here"))};
}

// What cannot be measured is refused before the work begins.
Status CheckMeasured(const Arguments& arguments, const LoadedModel& own, const EvalInput& input,
                     std::span<const runtime::Gate> gates) {
  if (!input.full && !input.reference) {
    Error error = NotWhole(own, arguments.runtime.source);
    error.hint = "compare with the source: --against SRC";
    return error;
  }
  for (const runtime::Gate& gate : gates) {
    if (gate.metric != "quant_kld" || input.full || !input.reference) continue;
    Error error = NotWhole(own, Cat("--gate ", gate.text));
    error.hint = "total_kld measures split and quantization together";
    return error;
  }
  return runtime::CheckMeasured(gates, input, arguments.eval);
}

struct Models {
  LoadedModel own;
  std::optional<LoadedModel> against;
};

Result<Models> LoadModels(const Arguments& arguments) {
  SHARD_TRY(const auto executor, OpenExecutor(arguments.runtime));
  Models models;
  SHARD_TRY(models.own, LoadModel(arguments.runtime.source, arguments.runtime, executor));
  if (arguments.against.empty()) return models;
  RuntimeArguments whole = arguments.runtime;
  whole.load.overlay_version.clear();
  SHARD_TRY(models.against, LoadModel(arguments.against, whole, executor));
  SHARD_CHECK(CheckComparable(arguments, models.own, *models.against));
  return models;
}

Result<std::vector<runtime::Gate>> ParseGates(const Arguments& arguments) {
  std::vector<runtime::Gate> gates;
  for (const std::string& text : arguments.gates) {
    SHARD_TRY(runtime::Gate gate, runtime::ParseGate(text));
    gates.push_back(std::move(gate));
  }
  return gates;
}

// Whether the texts are text that the distribution was made from, said before the work begins; no
// value for anything but a distribution.
Result<std::optional<manifest::MadeFrom>> CheckHeldOut(const Arguments& arguments,
                                                       std::span<const TokenSession> tokens) {
  std::optional<manifest::MadeFrom> made_from;
  const std::string& source = arguments.runtime.source;
  SHARD_TRY(const bool distribution, moepack::IsThere(fs::path(source) / manifest::kManifestFile));
  if (!distribution) return made_from;
  SHARD_TRY(const manifest::Manifest manifest, manifest::ReadManifest(source));
  made_from = manifest::MadeFromText(manifest, SessionDigests(tokens));
  const std::string text = manifest::NotHeldOutText(made_from, tokens.size());
  if (!text.empty())
    PrintWarnings({Cat(text,
                       " What is measured on text that a split was made from says "
                       "little about other text.")});
  return made_from;
}

// Adds what only the models know to a record.
void Describe(const Arguments& arguments, const Models& models,
              std::span<const TokenSession> tokens, manifest::QualityRecord& record) {
  record.tool_version = ToolVersion();
  record.executor = models.own.executor->name();
  record.precision = runtime::PrecisionOf(*models.own.weights);
  record.context = arguments.eval.context;
  record.score_half = arguments.eval.score_half;
  record.tokens_sha256 = runtime::TokensDigest(tokens);
}

Status RunEvaluation(const Arguments& arguments, const Models& models,
                     std::span<const runtime::Gate> gates, EvalReport& report) {
  EvalOptions options = arguments.eval;
  const LoadedModel* const against = models.against ? &*models.against : nullptr;
  SHARD_CHECK(runtime::FitEvaluation(*models.own.model, GroupsOf(models.own),
                                     against ? against->model.get() : nullptr,
                                     RunMemory(arguments.runtime, arguments.memory), options));
  SHARD_TRY(const std::vector<TokenSession> tokens,
            ReadSessions(arguments.texts, models.own.model->vocabulary(),
                         TokenizeAs(models.own.weights)));
  SHARD_TRY(const auto made_from, CheckHeldOut(arguments, tokens));
  const EvalInput input = MakeInput(models.own, against, options);
  SHARD_CHECK(CheckMeasured(arguments, models.own, input, gates));
  Progress progress("evaluating", ProgressUnit::kTokens);
  uint64_t finished = 0, all = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    finished = done;
    all = total;
    progress.Update(done, total);
  };
  options.ran = [&](double part) {
    if (all == 0) return;
    progress.Update(std::min(finished + static_cast<uint64_t>(part), all), all);
  };
  SHARD_TRY(const std::vector<runtime::SessionMeasure> measures,
            runtime::Evaluate(input, tokens, options));
  report.summary = runtime::SummarizeEvaluation(input, measures, arguments.race_tokens);
  if (input.groups.empty()) {
    if (!arguments.record) return Ok();
    return Error{Code::kNotFound, Cat(arguments.runtime.source, ": expected groups, found none"),
                 "--record writes figures of groups: pull one, or leave --record out"};
  }
  report.quality = runtime::RecordOf(input, measures);
  Describe(arguments, models, tokens, *report.quality);
  report.quality->made_from = made_from;
  return Ok();
}

Status TestGates(const std::vector<runtime::Gate>& gates, EvalReport& report) {
  for (const runtime::Gate& gate : gates) {
    SHARD_TRY(std::vector<std::string> failed, runtime::FailedGates(report.summary, {&gate, 1}));
    report.failed.insert(report.failed.end(), failed.begin(), failed.end());
    report.gates.push_back({gate.text, std::move(failed)});
  }
  return Ok();
}

// What brings a model closer to its source, or a split closer to its model, and was not used.
std::string GateHint(const runtime::Weights& weights, const std::vector<std::string>& failed) {
  const bool only_types = std::all_of(failed.begin(), failed.end(), [](const std::string& text) {
    return text.starts_with("quantization: ");
  });
  if (only_types || !weights.plan) return "choose larger types, or quantize with --calibrate";
  std::vector<std::string> ways;
  if (weights.refit_version.empty()) ways.push_back("build --refit");
  if (!DecidesFromScores(weights.plan->scheme)) ways.push_back("a plan made from statistics");
  if (weights.plan->overlays.empty()) ways.push_back("an overlay");
  ways.push_back("fewer groups");
  return Cat("try ", moepack::Join(ways, ", or "));
}

Status Write(ReportFormat format, const EvalReport& report) {
  switch (format) {
    case ReportFormat::kJson:
      return WriteJsonResult(EvalJson(report));
    case ReportFormat::kGithub:
      return WriteResult(GithubText(EvalCi(report)));
    case ReportFormat::kJunit:
      return WriteResult(JunitText(EvalCi(report)));
    case ReportFormat::kText:
      break;
  }
  return WriteReport(EvalText(report));
}

// Only the groups of a distribution can race.
Status CheckRace(const Arguments& arguments) {
  if (!arguments.race_given) return Ok();
  const std::string& source = arguments.runtime.source;
  SHARD_TRY(const bool distribution, moepack::IsThere(fs::path(source) / manifest::kManifestFile));
  if (distribution) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("--race-tokens has no effect: ", source, " has no groups"),
               "leave it out: only the groups of a distribution race"};
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_TRY(const std::vector<runtime::Gate> gates, ParseGates(arguments));
  if (arguments.eval.generate >= arguments.eval.context)
    return Error{Code::kInvalidArgument,
                 Cat("--generate must be less than the context (", arguments.eval.context, ")")};
  SHARD_CHECK(CheckRuntimeOptions(arguments.runtime.source, arguments.runtime, arguments.against));
  SHARD_CHECK(CheckRace(arguments));
  SHARD_TRY(const auto begun, BeginRecording(arguments.record, arguments.runtime));
  SHARD_TRY(const Models models, LoadModels(arguments));
  EvalReport report;
  SHARD_CHECK(RunEvaluation(arguments, models, gates, report));
  SHARD_CHECK(TestGates(gates, report));
  report.source = arguments.runtime.source;
  report.distribution = models.own.weights->plan.has_value();
  report.against = arguments.against;
  report.calibrated = FindCalibrationKeys(models.own.weights->metadata);
  report.context = arguments.eval.context;
  report.score_half = arguments.eval.score_half;
  report.executor = models.own.executor->name();
  report.precision = runtime::PrecisionOf(*models.own.weights);
  report.versions = {models.own.weights->model_version, models.own.weights->shard_version,
                     models.own.weights->replica_version};
  SHARD_CHECK(Write(arguments.report.kind(), report));
  if (begun) SHARD_CHECK(FinishRecording(report.source, *begun, *report.quality));
  if (report.failed.empty()) return kExitDone;
  return Error{Code::kMismatch, Cat(report.source, ": gates: ", moepack::Join(report.failed, "; ")),
               GateHint(*models.own.weights, report.failed)};
}

void AddEvalOptions(CLI::App& app, Arguments& arguments) {
  StartSection(app, "Input");
  app.add_option("--against", arguments.against,
                 "The model before it was quantized: this separates the damage of quantization "
                 "from that of the split.")
      ->type_name("SRC");
  StartSection(app, "Checks");
  app.add_option(
         "--gate", arguments.gates,
         "Exit with status 6 unless this holds where each session runs on the group that captures "
         "most of it: kld<=0.15. Also total_kld, quant_kld, ppl_ratio, total_ppl_ratio, top1, "
         "capture, loops; each.kld<=0.3 requires it of every group. May be repeated.")
      ->type_name("EXPR")
      ->allow_extra_args(false);
  app.add_flag(
      "--record", arguments.record,
      "Write the figures of every group and bucket into distribution.json and README.md of "
      "SRC, a distribution. Record before it is published and signed.");
  StartSection(app, "Scoring");
  app.add_flag("--score-half", arguments.eval.score_half,
               "Score only the second half of each window, nearly as llama.cpp does.");
  app.add_option("--generate", arguments.eval.generate,
                 "How many tokens each group adds to each session, greedily, to see whether it "
                 "loops. With 0 there is no loop test. Default: 64.")
      ->type_name("N")
      ->transform(AsCount(0, kMaxRaceTokens));
  app.add_option("--race-tokens", arguments.race_tokens,
                 "How many tokens of a session the groups race over. Default: 32.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxRaceTokens));
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "SRC", kAnySource, arguments->runtime.source, arguments->runtime);
  arguments->runtime.load.not_pulled_hint = "eval measures all groups, so pull the others, too";
  AddTexts(app, arguments->texts);
  AddEvalOptions(app, *arguments);
  AddContext(app, "Longer sessions are scored in windows. Default: 512.", arguments->eval.context);
  AddExecutor(app, arguments->runtime);
  AddRunMemory(app, arguments->memory);
  AddReportFormat(app, arguments->report);
  const CLI::Option* race = app.get_option("--race-tokens");
  return [arguments, race] {
    arguments->race_given = race->count() > 0;
    return Run(*arguments);
  };
}

}  // namespace
}  // namespace eval_command

constinit const Command kEval = {
    "eval",
    "Measures what the split costs in quality, on the same tokens for every node",
    "Scores held-out texts with the whole model and with each expert group: captured gate mass, "
    "log-probability and perplexity, KL divergence, loops in greedy continuations, and a race "
    "between the groups. Use texts that the plan was not made from. docs/runtime-shim.md says how "
    "each figure is made.",
    {"moepack eval out --text fixtures/tiny-moe/NOTE.md",
     "moepack eval out --against fixtures/tiny-moe --text fixtures/tiny-moe/NOTE.md --gate "
     "'capture>=0.3'"},
    {"--text", "--tokens", "--against", "--gate", "--record", "--generate", "--context",
     "--executor", "--format", "--json"},
    eval_command::Bind};

}  // namespace moepack::cli
