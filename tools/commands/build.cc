#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_write.h"
#include "manifest/node/assemble.h"
#include "manifest/write/output_path.h"
#include "tools/base/command.h"
#include "tools/base/command_text.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/commands/refit_run.h"
#include "tools/commands/task_run.h"
#include "tools/commands/verify_command.h"
#include "tools/commands/write_command.h"
#include "tools/options/output_file.h"
#include "tools/options/source.h"
#include "tools/reports/verify_report.h"
#include "tools/reports/write_report.h"

namespace moepack::cli {
namespace build_command {
namespace {

struct Arguments : WriteArguments {
  bool prove = false, no_verify = false, cold = false;
  bool refits = false;
  RefitArguments refitting;
};

// Empty with --no-verify.
Result<std::optional<manifest::VerifyReport>> Verify(const Arguments& arguments,
                                                     const WriteJob& job,
                                                     const manifest::Manifest& written) {
  if (arguments.no_verify) return std::optional<manifest::VerifyReport>();
  manifest::VerifyOptions options;
  options.jobs = job.write.pack.jobs;
  // What is verified is what this run wrote, and not what another one put there since.
  options.digest = ManifestDigest(written);
  options.cold = arguments.cold;
  if (arguments.prove) {
    options.against = arguments.source.shown();
    options.against_source = job.source;
    options.family_file = arguments.source.model.family_file;
    options.config_file = arguments.source.model.config_file;
    if (job.write.gguf) {
      const QuantizeOptions& quantize = *job.write.gguf;
      if (!quantize.imatrix_file.empty()) options.imatrix_files = {quantize.imatrix_file};
      options.pre = quantize.convert.pre;
    }
    options.refit_store = job.refit_store;
    options.calibrated_store = job.calibrated_store;
  }
  SHARD_TRY(manifest::VerifyReport report, VerifyWithProgress(job.out, options));
  return std::optional(std::move(report));
}

// Everything that determines how these bytes are made from this source, so that the proof makes
// them again.
std::string ProofCommand(const SourceArguments& source, const WriteJob& job) {
  CommandLine line("verify");
  line.AddPath(job.out);
  line.AddPath("--against", source.shown());
  line.AddPath("--family", source.model.family_file);
  line.AddPath("--config", source.model.config_file);
  line.AddPath("--refit-store", job.refit_store);
  line.AddPath("--calibrated-store", job.calibrated_store);
  if (!job.write.gguf) return line.Text();
  line.AddPath("--imatrix", job.write.gguf->imatrix_file);
  line.Add("--pre", job.write.gguf->convert.pre);
  return line.Text();
}

// The node that the next step assembles; "" if none can be: not if the overlay has its own type, or
// if layers differ in their number of experts.
std::string NodeCommand(const SourceArguments& source, const WriteJob& job) {
  const std::vector<uint32_t>& groups = job.write.slice.parts.groups;
  manifest::AssembleOptions options;
  // GGUF bundles have their own names, and assembling them needs no family.
  options.family_file = job.write.gguf ? "" : source.model.family_file;
  options.group = groups.empty() ? 0 : groups[0];
  options.dry_run = true;
  const std::string node = FreePath(Cat("node-", options.group));
  if (!manifest::AssembleNode(job.out, node, options)) return "";
  CommandLine line("assemble");
  line.AddPath(job.out);
  line.Add("--group", std::to_string(options.group));
  line.AddPath("--family", options.family_file);
  line.AddPath("-o", node);
  return line.Text();
}

std::string NextSteps(const SourceArguments& source, const WriteJob& job) {
  const std::string node = NodeCommand(source, job);
  return Cat("\nnext:\n  ", ProofCommand(source, job), node.empty() ? "" : "\n  ", node, "\n");
}

struct Outcome {
  const SourceArguments& source;
  const WriteJob& job;
  const WriteOutcome& written;
  const std::optional<manifest::VerifyReport>& verified;
};

std::string Line(const Outcome& outcome) {
  const std::string written = WrittenLine(outcome.written);
  return outcome.verified ? Cat(written, "; verification ", VerifyTotals(*outcome.verified))
                          : written;
}

std::string Text(const Outcome& outcome) {
  std::string text = WrittenText(outcome.written);
  if (!outcome.verified) return text + NextSteps(outcome.source, outcome.job);
  text += "verification " + VerifyTotals(*outcome.verified) + "\n";
  if (!outcome.verified->cold)
    text += "what was just written may still be in memory: --cold reads it from the device\n";
  return text + (outcome.verified->passed()
                     ? NextSteps(outcome.source, outcome.job)
                     : VerifyText(outcome.job.out, *outcome.verified, VerifyShown::kWhatWasFound));
}

Json Document(const Outcome& outcome) {
  Json document = WrittenJson(outcome.written);
  document["verify"] =
      outcome.verified ? VerifyJson(outcome.job.out, *outcome.verified) : Json(nullptr);
  return document;
}

// A refit takes long, so what would be refused at its end is refused before it.
Status CheckRefit(const Arguments& arguments, const WriteJob& job, const std::string& store) {
  const PartSelection& parts = job.write.slice.parts;
  if (!parts.all && parts.groups.empty())
    return Error{Code::kInvalidArgument,
                 "--refit has no effect without a group among the parts of --only",
                 "only what groups hold is refitted: leave --refit out"};
  if (job.dry_run)
    return Error{Code::kInvalidArgument, "--dry-run cannot be used with --refit",
                 "`moepack refit --dry-run` says what a refit takes, and without --refit this says "
                 "what is written"};
  SHARD_CHECK(CheckRefitSteps(arguments.refitting.options));
  SHARD_CHECK(CheckDirectoriesApart({"--output", job.out}, {"--refit-store", store}));
  std::vector<std::string> inputs;
  AddNamedFiles(arguments.refitting, inputs);
  SHARD_CHECK(CheckHoldsNoInput(job.out, inputs));
  return manifest::CheckReplaceable(job.out, job.write.force);
}

// Refits before anything is written, if --refit wants it, and returns the store. It stays beside
// the distribution, so that a killed run can be resumed, and other types need no new refit.
Result<std::string> RefitFirst(const Arguments& arguments, const MoeModel& model,
                               const WriteJob& job) {
  if (!arguments.refits) {
    if (arguments.refitting.merge_overlay && arguments.refit_store.empty())
      return Error{Code::kInvalidArgument,
                   "--merge-overlay has no effect without --refit or --refit-store",
                   "leave --overlay-file out, and groups hold what the plan gives them"};
    return arguments.refit_store;
  }
  const std::string store =
      arguments.refit_store.empty() ? RefitStoreBeside(job.out) : arguments.refit_store;
  SHARD_CHECK(CheckRefit(arguments, job, store));
  RuntimeArguments runtime;
  runtime.source = arguments.source.source;
  runtime.load.model = arguments.source.model;
  runtime.load.jobs = static_cast<uint32_t>(job.write.pack.jobs);
  RefitArguments refitting = arguments.refitting;
  refitting.options.jobs = runtime.load.jobs;
  SHARD_TRY(const RefitModelLoad source, LoadForRefit(runtime));
  SHARD_CHECK(RunRefit(
      {source.loaded, job.plan, model.Version(""), refitting, store, source.moments.get()}));
  return store;
}

// What is checked at the end needs all tasks: `join` compares what they wrote with its digests.
Status CheckTask(const Arguments& arguments) {
  if (arguments.refits)
    return NotInTask("--refit", "`moepack refit` makes the store once; tasks take --refit-store");
  if (!arguments.prove && !arguments.cold) return Ok();
  return NotInTask(arguments.prove ? "--prove" : "--cold",
                   "use `moepack verify` when the tasks are joined, with --against for a proof");
}

OwnSteps StepsOf(const Arguments& arguments) {
  OwnSteps own;
  own.check_task = [&] { return CheckTask(arguments); };
  own.plan = [&](Plan& plan) { return MergeOverlayOf(arguments.refitting, plan); };
  own.store = [&](const MoeModel& model, const WriteJob& job) {
    return RefitFirst(arguments, model, job);
  };
  if (arguments.refitting.merge_overlay) own.words = {"--merge-overlay"};
  return own;
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_TRY(WriteJob job, MakeWriteJob("build", arguments, StepsOf(arguments)));
  if (job.task) return RunWriteTask(job);
  if (job.dry_run) return RunDryRun(job);
  SHARD_TRY(const TimedWrite written, WriteWithProgress(job));
  SHARD_TRY(const auto verified, Verify(arguments, job, written.report.manifest));
  NoteTraffic(*job.source.tree, job.source_bytes);
  const WriteOutcome write_outcome{job.out, written.report, written.seconds};
  const Outcome outcome{arguments.source, job, write_outcome, verified};
  if (verified) PrintWarnings(WarningTexts(*verified));
  SHARD_CHECK(job.json ? WriteJsonResult(Document(outcome))
                       : WriteReport(Text(outcome), Line(outcome)));
  if (verified) SHARD_CHECK(CheckPassed(job.out, *verified));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddSource(app, arguments->source);
  AddPlanOrFile(app, *arguments);
  AddWriteOptions(app, *arguments);
  StartSection(app, "Refit");
  CLI::Option* refit = app.add_flag(
      "--refit", arguments->refits,
      "First refit the experts of every group on calibration text, as `moepack refit` does. They "
      "go to --refit-store, by default the output's name with .refit behind it, and stay there.");
  const size_t before = app.get_options().size();
  AddRefitMethod(app, arguments->refitting);
  AddRefitResources(app, "refit-", arguments->refitting);
  const std::vector<CLI::Option*> options = app.get_options();
  for (size_t i = before; i < options.size(); ++i) {
    // An overlay that was merged before the refit is merged again with its store.
    if (!options[i]->check_lname("merge-overlay")) options[i]->needs(refit);
    options[i]->group(refit->get_group());
  }
  AddCalibrate(app, "calibrate-", arguments->calibrate);
  StartSection(app, "Checks");
  CLI::Option* prove = app.add_flag(
      "--prove", arguments->prove,
      "Also compare every byte that was written with its place in the source, or, "
      "where the type changed, with what the source gives when it is converted again.");
  AddCold(app, arguments->cold);
  app.add_flag("--no-verify", arguments->no_verify,
               "Do not read the result back to check structure and digests.")
      ->excludes(prove)
      ->excludes(app.get_option("--cold"));
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace build_command

constinit const Command kBuild = {
    "build",
    "Plans, writes and verifies a distribution in one run",
    "The main job: plan, shard-experts and verify in one run, with conversion and quantization "
    "on the way if wanted. The result is read back once to check structure "
    "and digests; --prove compares it with the source byte by byte as well. The output is then "
    "mostly still in the page cache; with --cold it is read from the device.",
    {"moepack build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json -o out",
     "moepack build fixtures/tiny-moe --groups 3 --quantize Q4_K_M -o out-q4"},
    {"--output", "--groups", "--plan", "--statistics", "--overlay-file", "--recipe", "--imatrix",
     "--prove", "--dry-run", "--force"},
    build_command::Bind};

}  // namespace moepack::cli
