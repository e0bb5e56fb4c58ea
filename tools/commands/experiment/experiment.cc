#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/saved_file.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/stats/session_digest.h"
#include "manifest/document/first_difference.h"
#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/experiment/document.h"
#include "runtime-shim/experiment/looks.h"
#include "runtime-shim/profile/identity.h"
#include "runtime-shim/refit/overlap.h"
#include "runtime-shim/session/together.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/commands/experiment/experiment_arguments.h"
#include "tools/commands/experiment/experiment_passes.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/reports/runs/experiment_report.h"

namespace moepack::cli {
namespace experiment_command {
namespace {

// ---- How fast the model runs here

struct ProbedSpeed {
  uint64_t tokens = 0;  // that were run to find out
  double seconds_per_token = 0;
  uint64_t weight_bytes = 0;  // of the model as stored
};

// Enough for a batch like those of an evaluation, and done in seconds.
constexpr size_t kProbedTokens = 256;

uint64_t BytesOf(const runtime::Weights& weights) {
  uint64_t bytes = 0;
  for (const runtime::LoadedPart& part : weights.parts) bytes += part.bytes;
  return bytes;
}

// Runs the beginning of a session through the whole model.
Result<ProbedSpeed> ProbeSpeed(const ExperimentArguments& arguments, const TokenSession& session) {
  SHARD_TRY(const auto executor, OpenExecutor(arguments.runtime));
  SHARD_TRY(const LoadedModel loaded,
            LoadModel(arguments.runtime.source, arguments.runtime, executor));
  const size_t count =
      std::min({kProbedTokens, session.tokens.size(), static_cast<size_t>(arguments.eval.context)});
  const auto tokens = std::span(session.tokens).first(count);
  runtime::SessionOptions options;
  options.context = static_cast<uint32_t>(count);
  SHARD_TRY(
      const auto opened,
      runtime::Session::Open(
          *loaded.model, runtime::EligibleExperts(*loaded.weights, std::nullopt, true), options));
  const auto begun = std::chrono::steady_clock::now();
  SHARD_TRY(const std::vector<float> logits, opened->Feed(tokens, runtime::LogitsOf::kLast));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  return ProbedSpeed{count, took.count() / static_cast<double>(count), BytesOf(*loaded.weights)};
}

// ----

using runtime::ExperimentState;

// A killed run loses no more than this.
constexpr auto kBetweenSaves = std::chrono::seconds(10);

// Refuses calibration text, of the option, that is held out, too.
Status CheckApart(const char* option, const std::vector<std::string>& files,
                  const std::shared_ptr<const runtime::Weights>& weights,
                  const std::vector<TokenSession>& held_out) {
  if (files.empty()) return Ok();
  TextArguments texts;
  texts.texts = files;
  SHARD_TRY(const std::vector<TokenSession> calibration,
            ReadSessions(texts, VocabularyOf(*weights), TokenizeAs(weights)));
  Status apart = runtime::CheckOverlaps(runtime::FindOverlaps(calibration, held_out));
  if (apart) return apart;
  Error error = std::move(apart).error();
  error.hint = Cat(option, " and --text must name different texts");
  return error;
}

// The held-out sessions, in the order in which they run.
Result<std::vector<TokenSession>> ReadHeldOut(const ExperimentArguments& arguments) {
  RuntimeArguments headers = arguments.runtime;
  // Only the tokenizer and the vocabulary are needed here; the passes verify what they load.
  headers.load.verify = false;
  SHARD_TRY(const auto weights, LoadSource(headers.source, headers));
  SHARD_TRY(std::vector<TokenSession> sessions,
            ReadSessions(arguments.texts, VocabularyOf(*weights), TokenizeAs(weights)));
  SHARD_CHECK(CheckApart("--calibrate", arguments.calibrate.texts.texts, weights, sessions));
  SHARD_CHECK(CheckApart("--refit-text", arguments.refit_texts, weights, sessions));
  std::vector<TokenSession> ordered;
  for (const size_t place : runtime::OrderSessions(sessions))
    ordered.push_back(std::move(sessions[place]));
  return ordered;
}

// Whether the statistics behind the plans were measured on other text.
enum class HeldOut {
  kNoStatistics,  // the plans were made without any
  kYes,
  kUnknown,  // they do not name their texts; a warning was printed
};

// Refuses text that the statistics were measured on: plans that were made from it would look better
// than they are. `measured` is of any plan, as all have the same statistics.
Result<HeldOut> CheckHeldOut(const std::optional<PlanExpectation>& measured,
                             const std::vector<TokenSession>& sessions) {
  if (!measured) return HeldOut::kNoStatistics;
  const std::vector<std::string>& known = measured->texts;
  const std::vector<std::string> digests = SessionDigests(sessions);
  const size_t found = CountKnown(digests, known);
  if (found > 0) {
    const auto first = std::find_if(digests.begin(), digests.end(), [&](const std::string& digest) {
      return CountKnown({digest}, known) > 0;
    });
    return Error{Code::kInvalidArgument,
                 Cat("held-out session ",
                     Quoted(sessions[static_cast<size_t>(first - digests.begin())].name),
                     ": expected other text than the statistics were measured on, found the same (",
                     found, " of ", Plural(sessions.size(), "session"), ")"),
                 "--statistics and --text must be of different texts"};
  }
  if (known.size() == measured->sessions + measured->held_out) return HeldOut::kYes;
  PrintWarnings(
      {"whether the statistics were measured on the held-out text is not known: "
       "they do not name their texts; profile again to find out"});
  return HeldOut::kUnknown;
}

std::string DigestOf(const std::vector<TokenSession>& sessions) {
  Sha256 digest;
  for (const TokenSession& session : sessions) {
    // Lengths before texts, so that no two lists of sessions hash the same bytes.
    const std::string head = Cat(session.name.size(), ":", session.name, session.bucket.size(), ":",
                                 session.bucket, session.tokens.size(), ":");
    digest.Update(std::as_bytes(std::span(head)));
    for (const uint32_t token : session.tokens) {
      const std::string text = Cat(token, " ");
      digest.Update(std::as_bytes(std::span(text)));
    }
  }
  return digest.Finish();
}

uint64_t TokensOf(const std::vector<TokenSession>& sessions) {
  uint64_t tokens = 0;
  for (const TokenSession& session : sessions) tokens += session.tokens.size();
  return tokens;
}

Result<std::string> FileDigest(const std::string& path) {
  if (path.empty()) return std::string();
  SHARD_TRY(const moepack::Source source, LocalSource(path));
  SHARD_TRY(const ByteSourcePtr file, source.tree->Open(source.file));
  return Sha256Of(*file);
}

Status NameTexts(const std::vector<std::string>& files, const char* key, Json& setup) {
  for (const std::string& file : files) {
    SHARD_TRY(const std::string digest, FileDigest(file));
    setup[key].push_back({{"text", FileName(file)}, {"sha256", digest}});
  }
  return Ok();
}

// Everything that determines the figures, and the rule that may stop the experiment.
Result<Json> SetupOf(const ExperimentModels& models, const std::vector<TokenSession>& sessions,
                     HeldOut held_out) {
  const ExperimentArguments& arguments = models.arguments;
  Json splits = Json::array();
  for (const ExperimentSplit& split : models.splits)
    splits.push_back({{"strategy", split.strategy}, {"plan", split.digest}});
  SHARD_TRY(const std::string imatrix, FileDigest(arguments.imatrix));
  Json setup = {
      {"model", FileName(arguments.runtime.source)},
      {"model_version", models.model.Version("")},
      {"groups", arguments.plan.groups},
      {"splits", std::move(splits)},
      {"recipes", arguments.recipes},
      {"imatrix", imatrix.empty() ? Json(nullptr) : Json(imatrix)},
      {"held_out",
       {{"sessions", sessions.size()},
        {"tokens", TokensOf(sessions)},
        {"digest", DigestOf(sessions)}}},
      {"context", arguments.eval.context},
      {"race_tokens", arguments.race_tokens},
      {"looks", arguments.looks},
      {"until_error", arguments.until_error > 0 ? Json(arguments.until_error) : Json(nullptr)},
      {"executor", arguments.runtime.executor}};
  // How many of the sessions are in the statistics: text that is makes no experiment.
  if (held_out != HeldOut::kNoStatistics)
    setup["held_out"]["in_statistics"] = held_out == HeldOut::kYes ? Json(0) : Json(nullptr);
  SHARD_CHECK(NameTexts(arguments.calibrate.texts.texts, "calibrate", setup));
  if (arguments.calibrate.options.tokens > 0)
    setup["calibrate_most_tokens"] = arguments.calibrate.options.tokens;
  SHARD_CHECK(NameTexts(arguments.refit_texts, "refit", setup));
  if (!arguments.refit_texts.empty()) {
    setup["refit_steps"] = arguments.refit.steps;
    setup["refit_updates"] = arguments.refit.updates;
  }
  return setup;
}

// An experiment can only be resumed with its original setup: other texts, or another rule once
// figures are known, would make its errors meaningless.
Status GoOn(const ExperimentArguments& arguments, const Json& setup,
            const std::vector<TokenSession>& sessions, const std::vector<size_t>& nodes,
            ExperimentState& state) {
  if (arguments.out.empty() || arguments.force) return Ok();
  SHARD_TRY(const bool there, IsThere(arguments.out));
  if (!there) return Ok();
  SHARD_TRY(runtime::FinishedSessions finished, runtime::ReadExperiment(arguments.out));
  const auto difference = manifest::FirstDifference("setup", finished.setup, setup);
  if (difference)
    return Error{Code::kMismatch,
                 Cat(arguments.out, ": ", difference->thing, ": expected ", difference->expected,
                     " as it was begun, found ", difference->found),
                 "-o names another file, and --force starts over"};
  return runtime::Resume(arguments.out, std::move(finished), sessions, nodes, state);
}

Status CheckOutput(const ExperimentArguments& arguments) {
  if (arguments.out.empty()) return Ok();
  if (!arguments.out.ends_with(".json"))
    return Error{Code::kInvalidArgument, Cat("--output: expected a name that ends in .json, found ",
                                             Quoted(arguments.out))};
  std::vector<std::string> inputs = arguments.refit_texts;
  inputs.insert(inputs.end(), {arguments.experiment, arguments.imatrix});
  AddNamedFiles(arguments.calibrate, inputs);
  AddNamedFiles(arguments.texts, inputs);
  AddNamedFiles(arguments.plan, inputs);
  AddNamedFiles(arguments.runtime.load.model, inputs);
  const std::string& model = arguments.runtime.source;
  SHARD_CHECK(CheckOutputFile(arguments.out, inputs, true));
  // An experiment is no file of the model, even in its directory.
  if (runtime::ReadExperiment(arguments.out)) return Ok();
  return CheckModelOutput(arguments.out, model, inputs, true);
}

// Counts the remaining tokens of all passes.
class RunProgress {
 public:
  explicit RunProgress(uint64_t total) : progress_("experimenting", ProgressUnit::kTokens) {
    total_ = total;
  }
  void Update(uint64_t done, uint64_t all) {
    progress_.Update(std::min(finished_ + done, total_), total_);
    if (done == all) finished_ += all;
  }

 private:
  Progress progress_;
  uint64_t finished_ = 0, total_ = 0;
};

uint64_t TokensLeft(const ExperimentModels& models,
                    const std::vector<runtime::ExperimentPass>& passes,
                    const std::vector<TokenSession>& sessions, const ExperimentState& state) {
  uint64_t tokens = 0;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    const size_t done = state.rows[passes[pass].parts.front().row].sessions.size();
    for (size_t i = done; i < sessions.size(); ++i)
      tokens += sessions[i].tokens.size() * RunsOfPass(models, pass);
  }
  return tokens;
}

struct Prepared {
  std::vector<TokenSession> sessions;
  Json setup;
  runtime::ExperimentRule rule;
  ExperimentState state;
};

Result<Prepared> Prepare(const ExperimentModels& models) {
  Prepared prepared;
  SHARD_TRY(prepared.sessions, ReadHeldOut(models.arguments));
  SHARD_TRY(const HeldOut held_out,
            CheckHeldOut(models.splits.front().plan.expectation, prepared.sessions));
  SHARD_TRY(prepared.setup, SetupOf(models, prepared.sessions, held_out));
  prepared.rule = {runtime::PlanLooks(prepared.sessions.size(), models.arguments.looks),
                   models.arguments.until_error};
  prepared.state.rows = ExperimentRows(models);
  SHARD_CHECK(GoOn(models.arguments, prepared.setup, prepared.sessions, NodesOfRows(models),
                   prepared.state));
  return prepared;
}

Status RunAll(ExperimentModels& models, Prepared& prepared, SavedFile& file) {
  const ExperimentArguments& arguments = models.arguments;
  const auto passes = ExperimentPasses(models);
  RunProgress progress(TokensLeft(models, passes, prepared.sessions, prepared.state));
  models.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total); };
  const auto write = [&](const ExperimentState& state) {
    return file.Write(WriteJson(runtime::ExperimentToJson(prepared.setup, prepared.rule, state)));
  };
  auto saved = std::chrono::steady_clock::now();
  runtime::ExperimentCalls calls;
  calls.race_tokens = arguments.race_tokens;
  calls.save = [&](const ExperimentState& state) -> Status {
    const auto now = std::chrono::steady_clock::now();
    if (now - saved < kBetweenSaves) return Ok();
    saved = now;
    return write(state);
  };
  const Status ran =
      runtime::RunExperiment(passes, prepared.sessions, prepared.rule, calls, prepared.state);
  Status written = write(prepared.state);  // what is finished is kept, whatever stopped the rest
  if (!ran) return ran;
  return written;
}

Result<int> DryRun(const ExperimentModels& models, const Prepared& prepared) {
  ExperimentDryRun report;
  report.sessions = prepared.sessions.size();
  report.tokens = TokensOf(prepared.sessions);
  SHARD_TRY(const ProbedSpeed speed, ProbeSpeed(models.arguments, prepared.sessions.front()));
  report.memory = models.arguments.memory.value_or(runtime::MemoryBound().wanted);
  const auto passes = ExperimentPasses(models);
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    const size_t done = prepared.state.rows[passes[pass].parts.front().row].sessions.size();
    PlannedPass planned{passes[pass].name, {}, RunsOfPass(models, pass), 0, 0, 0};
    for (const auto& part : passes[pass].parts)
      planned.rows.push_back(prepared.state.rows[part.row].label());
    for (size_t i = done; i < prepared.sessions.size(); ++i)
      planned.tokens += planned.runs * prepared.sessions[i].tokens.size();
    planned.weight_bytes = speed.weight_bytes * (pass == 0 ? 1 : 2);
    planned.seconds = static_cast<double>(planned.tokens) * speed.seconds_per_token;
    report.passes.push_back(std::move(planned));
  }
  report.looks = prepared.rule.looks;
  report.probed_tokens = speed.tokens;
  SHARD_CHECK(models.arguments.json ? WriteJsonResult(ExperimentDryRunJson(report))
                                    : WriteReport(ExperimentDryRunText(report)));
  return kExitDone;
}

Result<int> Run(ExperimentArguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckOutput(arguments));
  std::optional<SavedFile> file;
  if (!arguments.out.empty()) {
    SHARD_TRY(file, SavedFile::Open(arguments.out));
  }
  SourceArguments source;
  source.source = arguments.runtime.source;
  source.model = arguments.runtime.load.model;
  SHARD_TRY(const MoeModel model, OpenModel(source));
  SHARD_TRY(std::vector<ExperimentSplit> splits, MakeSplits(model, arguments));
  ExperimentModels models{arguments, model, std::move(splits), arguments.out + ".work", {}};
  SHARD_TRY(Prepared prepared, Prepare(models));
  SHARD_CHECK(CheckCalibrations(models));
  if (arguments.dry_run) return DryRun(models, prepared);
  if (NeedsWork(models)) SHARD_CHECK(MakeWork(models, prepared.setup));
  SHARD_CHECK(RunAll(models, prepared, *file));  // only a dry run needs no --output
  if (NeedsWork(models)) RemoveWork(models);
  const Json document = runtime::ExperimentToJson(prepared.setup, prepared.rule, prepared.state);
  SHARD_CHECK(arguments.json
                  ? WriteJsonResult(document)
                  : WriteReport(ExperimentText(prepared.rule, prepared.state, arguments.out),
                                ExperimentLine(prepared.state, arguments.out)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<ExperimentArguments>();
  AddExperimentOptions(app, *arguments);
  return [&app, arguments]() -> Result<int> {
    SHARD_CHECK(CompleteExperiment(app, *arguments));
    return Run(*arguments);
  };
}

}  // namespace
}  // namespace experiment_command

constinit const Command kExperiment = {
    "experiment",
    "Compares ways to split and quantize a model, on the same held-out tokens",
    "Makes a plan by each strategy, masks the model's routers to it, and measures what every node "
    "costs: captured gate mass, KL divergence and lost log-probability against the whole model; "
    "with --recipes also what quantization costs alone and together with each split. All rows run "
    "over the same tokens, and every figure has its standard error over sessions. Everything goes "
    "into one JSON, from which an interrupted run resumes. docs/experiment.md says how "
    "each figure is made, and why the rule that may stop early is sound.",
    {"moepack experiment fixtures/tiny-moe --strategies contiguous --eligible 8 --text "
     "fixtures/tiny-moe/NOTE.md -o experiment.json",
     "moepack experiment fixtures/tiny-moe --strategies contiguous,modulo --text "
     "fixtures/tiny-moe/NOTE.md --dry-run"},
    {"--groups", "--strategies", "--recipes", "--statistics", "--text", "--output", "--refit-text",
     "--until-error", "--looks", "--dry-run"},
    experiment_command::Bind};

}  // namespace moepack::cli
