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

// Refits before anything is written. The store stays beside the distribution, so that a killed run
// can be resumed, and other types need no new refit.
Status Refit(const MoeModel& model, const Plan& plan, Arguments& arguments) {
  if (!arguments.refits) return Ok();
  RuntimeArguments runtime;
  runtime.source = arguments.source.source;
  runtime.load.model = arguments.source.model;
  runtime.load.jobs = static_cast<uint32_t>(arguments.write.pack.jobs);
  arguments.refitting.options.jobs = runtime.load.jobs;
  SHARD_TRY(const RefitModelLoad source, LoadForRefit(runtime));
  const RefitRun run{source.loaded,         plan,
                     model.Version(""),     arguments.refitting,
                     arguments.refit_store, source.moments.get()};
  SHARD_CHECK(RunRefit(run));
  return Ok();
}

// Empty with --no-verify.
Result<std::optional<manifest::VerifyReport>> Verify(const Arguments& arguments,
                                                     const moepack::Source& source,
                                                     const manifest::Manifest& written) {
  if (arguments.no_verify) return std::optional<manifest::VerifyReport>();
  manifest::VerifyOptions options;
  options.jobs = arguments.write.pack.jobs;
  // What is verified is what this run wrote, and not what another one put there since.
  options.digest = ManifestDigest(written);
  options.cold = arguments.cold;
  if (arguments.prove) {
    options.against = arguments.source.shown();
    options.against_source = source;
    options.family_file = arguments.source.model.family_file;
    options.config_file = arguments.source.model.config_file;
    const QuantizeOptions& quantize = arguments.quantize.options;
    if (!quantize.imatrix_file.empty()) options.imatrix_files = {quantize.imatrix_file};
    options.pre = quantize.convert.pre;
    options.refit_store = arguments.refit_store;
  }
  SHARD_TRY(manifest::VerifyReport report, VerifyWithProgress(arguments.out, options));
  return std::optional(std::move(report));
}

// Everything that determines how these bytes are made from this source, so that the proof makes
// them again.
std::string ProofCommand(const Arguments& arguments) {
  CommandLine line("verify");
  line.AddPath(arguments.out);
  line.AddPath("--against", arguments.source.shown());
  line.AddPath("--family", arguments.source.model.family_file);
  line.AddPath("--config", arguments.source.model.config_file);
  line.AddPath("--refit-store", arguments.refit_store);
  if (!arguments.write.gguf) return line.Text();
  const QuantizeOptions& options = arguments.quantize.options;
  line.AddPath("--imatrix", options.imatrix_file);
  line.Add("--pre", options.convert.pre);
  return line.Text();
}

// GGUF bundles have their own names, and assembling them needs no family.
std::string AssemblingFamily(const Arguments& arguments) {
  return arguments.write.gguf ? "" : arguments.source.model.family_file;
}

// The node that the next step assembles.
uint32_t FirstGroup(const Arguments& arguments) {
  const std::vector<uint32_t>& groups = arguments.write.slice.parts.groups;
  return groups.empty() ? 0 : groups[0];
}

// Not if the overlay has its own type, or if layers differ in their number of experts.
bool CanAssemble(const Arguments& arguments, const std::string& node) {
  manifest::AssembleOptions options;
  options.family_file = AssemblingFamily(arguments);
  options.group = FirstGroup(arguments);
  options.dry_run = true;
  return manifest::AssembleNode(arguments.out, node, options).has_value();
}

// "" if a node cannot be assembled.
std::string NodeCommand(const Arguments& arguments) {
  const std::string node = FreePath(Cat("node-", FirstGroup(arguments)));
  if (!CanAssemble(arguments, node)) return "";
  CommandLine line("assemble");
  line.AddPath(arguments.out);
  line.Add("--group", std::to_string(FirstGroup(arguments)));
  line.AddPath("--family", AssemblingFamily(arguments));
  line.AddPath("-o", node);
  return line.Text();
}

std::string NextSteps(const Arguments& arguments) {
  const std::string node = NodeCommand(arguments);
  return Cat("\nnext:\n  ", ProofCommand(arguments), node.empty() ? "" : "\n  ", node, "\n");
}

struct Outcome {
  const Arguments& arguments;
  const WriteOutcome& written;
  const std::optional<manifest::VerifyReport>& verified;
};

std::string Text(const Outcome& outcome) {
  std::string text = WrittenText(outcome.written);
  if (!outcome.verified) return text + NextSteps(outcome.arguments);
  text += "verification " + VerifyTotals(*outcome.verified) + "\n";
  if (!outcome.verified->cold)
    text += "what was just written may still be in memory: --cold reads it from the device\n";
  return text + (outcome.verified->passed() ? NextSteps(outcome.arguments)
                                            : VerifyText(outcome.arguments.out, *outcome.verified));
}

Json Document(const Outcome& outcome) {
  Json document = WrittenJson(outcome.written);
  document["verify"] =
      outcome.verified ? VerifyJson(outcome.arguments.out, *outcome.verified) : Json(nullptr);
  return document;
}

// A refit takes long, so what would be refused at its end is refused before it. Chooses the store
// if none is named.
Status CheckRefit(Arguments& arguments) {
  if (!arguments.refits) {
    if (arguments.refitting.merge_overlay && arguments.refit_store.empty())
      return Error{Code::kInvalidArgument,
                   "--merge-overlay has no effect without --refit or --refit-store",
                   "leave --overlay-file out, and groups hold what the plan gives them"};
    return Ok();
  }
  const PartSelection& parts = arguments.write.slice.parts;
  if (!parts.all && parts.groups.empty())
    return Error{Code::kInvalidArgument,
                 "--refit has no effect without a group among the parts of --only",
                 "only what groups hold is refitted: leave --refit out"};
  if (arguments.dry_run)
    return Error{Code::kInvalidArgument, "--dry-run cannot be used with --refit",
                 "`moepack refit --dry-run` says what a refit takes, and without --refit this says "
                 "what is written"};
  SHARD_CHECK(CheckRefitSteps(arguments.refitting.options));
  if (arguments.refit_store.empty()) arguments.refit_store = RefitStoreBeside(arguments.out);
  SHARD_CHECK(
      CheckDirectoriesApart({"--output", arguments.out}, {"--refit-store", arguments.refit_store}));
  std::vector<std::string> inputs;
  AddNamedFiles(arguments.refitting, inputs);
  SHARD_CHECK(CheckHoldsNoInput(arguments.out, inputs));
  return manifest::CheckReplaceable(arguments.out, arguments.write.force);
}

// What is checked at the end needs all tasks: `join` compares what they wrote with its digests.
Status CheckTask(const Arguments& arguments) {
  if (arguments.refits)
    return NotInTask("--refit", "`moepack refit` makes the store once; tasks take --refit-store");
  if (!arguments.prove && !arguments.cold) return Ok();
  return NotInTask(arguments.prove ? "--prove" : "--cold",
                   "use `moepack verify` when the tasks are joined, with --against for a proof");
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckPlanOrFile(arguments));
  SHARD_TRY(const std::optional<TaskNumber> task, ChooseTask(arguments.task));
  if (task) SHARD_CHECK(CheckTask(arguments));
  SHARD_TRY(const moepack::Source source,
            OpenSource(arguments.source.source, arguments.source.remote));
  if (!task) SHARD_CHECK(CheckOutput(*source.tree, arguments));
  arguments.write.side_files = SideFiles::Note(source.tree, arguments.source.model.config_file);
  SHARD_TRY(MoeModel model, OpenModel(source, arguments.source));
  const uint64_t source_bytes = SizeOfFiles(model.checkpoint());
  SHARD_TRY(Plan plan, FindPlan(model, arguments));
  SHARD_CHECK(MergeOverlayOf(arguments.refitting, plan));
  SHARD_CHECK(ChooseParts(plan, arguments));
  SHARD_CHECK(ChooseContainer(model, plan, arguments));
  PrintWarnings(PlanWarnings(model, plan, PlannedFrom(arguments)));
  SHARD_CHECK(CheckRefit(arguments));
  SHARD_CHECK(Refit(model, plan, arguments));
  // After the refit, which makes what is chosen here.
  SHARD_CHECK(ChooseRefit(model, plan, arguments));
  arguments.write.command = RecordCommand("build", arguments);
  if (arguments.refitting.merge_overlay) arguments.write.command.push_back("--merge-overlay");
  SHARD_CHECK(CheckRecorded(arguments.write.command));
  if (task) return RunWriteTask(std::move(model), plan, *task, arguments);
  if (arguments.dry_run) return RunDryRun(model, plan, arguments);

  SHARD_TRY(const TimedWrite written, WriteWithProgress(std::move(model), plan, arguments));
  SHARD_TRY(const auto verified, Verify(arguments, source, written.report.manifest));
  NoteTraffic(*source.tree, source_bytes);
  const WriteOutcome write_outcome{arguments.out, written.report, written.seconds};
  const Outcome outcome{arguments, write_outcome, verified};
  if (verified) PrintWarnings(WarningTexts(*verified));
  SHARD_CHECK(arguments.json ? WriteJsonResult(Document(outcome)) : WriteResult(Text(outcome)));
  if (verified) SHARD_CHECK(CheckPassed(arguments.out, *verified));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddSource(app, arguments->source);
  AddPlanOrFile(app, *arguments);
  AddWriteOptions(app, *arguments);
  StartSection(app, "Output");
  CLI::Option* refit = app.add_flag(
      "--refit", arguments->refits,
      "First refit the experts of every group on calibration text, as `moepack refit` does. They "
      "go "
      "to --refit-store, by default the output's name with .refit behind it, and stay there.");
  const size_t before = app.get_options().size();
  AddRefitMethod(app, arguments->refitting);
  AddRefitResources(app, "refit-", arguments->refitting);
  const std::vector<CLI::Option*> options = app.get_options();
  for (size_t i = before; i < options.size(); ++i) {
    // An overlay that was merged before the refit is merged again with its store.
    if (!options[i]->check_lname("merge-overlay")) options[i]->needs(refit);
  }
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
    build_command::Bind};

}  // namespace moepack::cli
