#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/refit_tensors.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/placement.h"
#include "manifest/document/manifest.h"
#include "manifest/tasks/task_record.h"
#include "manifest/write/bundle.h"
#include "manifest/write/output_path.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/commands/refit_run.h"
#include "tools/commands/task_run.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/plan_source.h"
#include "tools/options/source.h"
#include "tools/options/statistics_options.h"
#include "tools/options/task_option.h"
#include "tools/reports/planning/place_report.h"
#include "tools/reports/runs/refit_report.h"
#include "tools/reports/write_report.h"

namespace moepack::cli {
namespace refit_command {
namespace {

struct Arguments {
  RuntimeArguments runtime;
  RefitArguments refit;
  std::string plan, against, store, out;
  std::vector<std::string> statistics;
  std::vector<std::string> only;  // parts
  TaskArguments task;
  bool force = false;
  bool dry_run = false, json = false;
};

// Everything that is read before anything is computed.
struct Inputs {
  RefitModelLoad source;
  std::optional<MoeModel> model;
  Plan plan;
};

// What is refitted, and whose plan it is: a distribution's own, or that of --plan.
struct Refitted {
  RuntimeArguments whole;    // names the model
  std::string distribution;  // "" for a plan's file
};

// The experts of a distribution may be quantized, refitted or not all there, so that its source is
// refitted by its plan.
Result<Refitted> FindRefitted(const Arguments& arguments) {
  Refitted found{arguments.runtime, ""};
  const std::string& source = arguments.runtime.source;
  SHARD_TRY(const bool distribution, IsThere(fs::path(source) / manifest::kManifestFile));
  if (!distribution) {
    if (!arguments.against.empty())
      return Error{Code::kInvalidArgument, Cat("--against has no effect: ", WithoutSecrets(source),
                                               " is not a distribution")};
    if (!arguments.plan.empty()) return found;
    return Error{Code::kInvalidArgument,
                 Cat("--plan is required: ", WithoutSecrets(source), " is not a distribution"),
                 "`moepack plan SRC -o plan.json` makes one"};
  }
  if (!arguments.plan.empty())
    return Error{Code::kInvalidArgument,
                 Cat("--plan cannot be used with a distribution: ", Shown(source), " has its own"),
                 "name the model in its place"};
  if (arguments.against.empty())
    return Error{Code::kInvalidArgument,
                 Cat(Shown(source),
                     ": --against is required: a refit changes the experts of the "
                     "model that the distribution was made from"),
                 "--against SRC names it"};
  found.whole.source = arguments.against;
  found.distribution = source;
  return found;
}

Result<Plan> PlanOf(const Arguments& arguments, const Refitted& refitted, const MoeModel& model) {
  if (refitted.distribution.empty()) return ReadPlanFile(arguments.plan, model);
  return PlanOfDistribution(refitted.distribution, refitted.whole.source, model);
}

// Learns which group a session is for, instead of using what the plan says.
Status ReadPlacement(const Arguments& arguments, const MoeModel& model, Plan& plan) {
  if (arguments.statistics.empty()) return Ok();
  PlanOptions options;
  options.statistics_files = arguments.statistics;
  SHARD_TRY(options, WithScores(model, std::move(options)));
  SHARD_TRY(plan.placement, LearnPlacement(model, options, plan));
  PrintMessage(plan.placement ? PlacementLine(*plan.placement)
                              : "placement: none, because one group suits every session best or "
                                "the statistics have no token counts; all text counts alike");
  return Ok();
}

// Where refitted experts go: beside the distribution, so that a killed run can be resumed.
std::string StoreOf(const Arguments& arguments) {
  return arguments.store.empty() ? RefitStoreBeside(arguments.out) : arguments.store;
}

// Where this run writes; a task has places of its own, from which `join` makes those of the command
// line.
struct Places {
  std::string store, out;  // `out` is "" for a store alone
  std::string whole;       // of the command line: the distribution, or the store alone
};

Places PlacesOf(const Arguments& arguments, const std::optional<TaskNumber>& task) {
  const std::string& whole = arguments.out.empty() ? arguments.store : arguments.out;
  if (!task) return {StoreOf(arguments), arguments.out, whole};
  const std::string part =
      (fs::path(manifest::TasksDirectory(whole)) / manifest::TaskName(*task)).string();
  return {RefitStoreBeside(part), arguments.out.empty() ? "" : part, whole};
}

// What is read must not be written over.
Status CheckReplacesNoInput(const Arguments& arguments, const SourceTree& source) {
  if (const auto directory = source.LocalPath(""))
    SHARD_CHECK(manifest::CheckOutputApart(arguments.out, *directory));
  std::vector<std::string> inputs = arguments.statistics;
  inputs.push_back(arguments.plan);
  AddNamedFiles(arguments.runtime.load.model, inputs);
  AddNamedFiles(arguments.refit, inputs);
  return CheckHoldsNoInput(arguments.out, inputs);
}

// Nor may anything be added to a distribution.
Status CheckApart(const Arguments& arguments, const Refitted& refitted, const SourceTree& source) {
  if (!arguments.out.empty()) SHARD_CHECK(CheckReplacesNoInput(arguments, source));
  if (refitted.distribution.empty()) return Ok();
  for (const std::string& out : {arguments.out, StoreOf(arguments)}) {
    if (!out.empty()) SHARD_CHECK(manifest::CheckOutsideDistribution(out, refitted.distribution));
  }
  return Ok();
}

Result<Inputs> ReadInputs(const Arguments& arguments) {
  Inputs inputs;
  SHARD_TRY(const Refitted refitted, FindRefitted(arguments));
  SHARD_CHECK(CheckRuntimeOptions(refitted.whole.source, refitted.whole, ""));
  SHARD_TRY(const moepack::Source source, OpenSource(refitted.whole.source));
  SHARD_CHECK(CheckApart(arguments, refitted, *source.tree));
  SHARD_TRY(inputs.model, MoeModel::Open(source, refitted.whole.load.model));
  SHARD_TRY(inputs.plan, PlanOf(arguments, refitted, *inputs.model));
  SHARD_TRY(inputs.source, LoadForRefit(refitted.whole));
  SHARD_CHECK(MergeOverlayOf(arguments.refit, inputs.plan));
  SHARD_CHECK(ReadPlacement(arguments, *inputs.model, inputs.plan));
  return inputs;
}

Status CheckOutputs(const Arguments& arguments, const std::optional<TaskNumber>& task) {
  if (arguments.store.empty() && arguments.out.empty())
    return Error{Code::kInvalidArgument, "-o or --store is required: nothing says where to write",
                 "-o writes a distribution, --store the refitted experts alone"};
  if (arguments.out.empty()) return Ok();
  if (task && !arguments.store.empty())
    return NotInTask("--store beside -o", "`moepack join` writes the store beside the output");
  SHARD_CHECK(CheckDirectoriesApart({"--output", arguments.out}, {"--store", StoreOf(arguments)}));
  // What a task writes is elsewhere; `join` looks at the output.
  return manifest::CheckReplaceable(arguments.out, arguments.force || task.has_value());
}

// The groups of --only, which has to name some.
Result<RefitShare> ShareOf(const Arguments& arguments, const std::optional<TaskNumber>& task,
                           const Plan& plan) {
  RefitShare share;
  share.task = task;
  if (arguments.only.empty()) return share;
  SHARD_TRY(const PartSelection parts, ParseParts(arguments.only, plan.groups.size()));
  share.only = Union(parts.groups, {});
  const bool alone = arguments.out.empty() && (parts.trunk || parts.overlay || parts.assets);
  if (!share.only.empty() && !alone && !parts.remainder) return share;
  return Error{Code::kInvalidArgument,
               Cat("--only: expected ", alone ? "groups, as no distribution is written" : "a group",
                   ", found ", Quoted(moepack::Join(arguments.only, ","))),
               "only what groups hold is refitted: --only group:0"};
}

// The parts of the distribution that this run writes: all, those of --only, or a task's groups, and
// with the first group what belongs to none.
Result<PartSelection> PartsOf(const Arguments& arguments, const RefitShare& share,
                              const std::vector<uint32_t>& groups, const Plan& plan) {
  if (!share.task) return ParseParts(arguments.only, plan.groups.size());
  const bool first = groups.front() == 0;
  return PartSelection{false, first, first, first, false, groups};
}

// Writes the distribution with the refitted experts; types and names are the source's.
Result<manifest::WriteReport> WriteRefitted(const Arguments& arguments, const Places& places,
                                            const PartSelection& parts, Inputs inputs) {
  SHARD_TRY(const RefitStore store, RefitStore::Open(places.store));
  SHARD_TRY(const RefitTensors refit, RefitTensors::Of(store, *inputs.model, inputs.plan, parts));
  manifest::WriteOptions options;
  options.slice.refit = &refit;
  options.slice.parts = parts;
  options.force = arguments.force;
  options.command = {"refit"};
  if (arguments.refit.merge_overlay) options.command.emplace_back("--merge-overlay");
  options.notes = PrintNotes;
  if (inputs.model->checkpoint().is_gguf()) options.gguf.emplace();
  Progress progress("writing");
  options.pack.progress = progress.Shows();
  SHARD_TRY(
      manifest::WriteReport report,
      manifest::WriteDistribution(*std::move(inputs.model), inputs.plan, places.out, options));
  PrintWarnings(report.warnings);
  return report;
}

// Whether a task that runs again has its distribution already.
Result<bool> IsWritten(const Places& places, const RefitDone& done) {
  if (places.out.empty()) return done.was_there;
  SHARD_TRY(const bool there, IsThere(fs::path(places.out) / manifest::kManifestFile));
  if (!there) return false;
  SHARD_TRY(const manifest::Manifest manifest, manifest::ReadManifest(places.out));
  if (manifest.refit && *manifest.refit == done.record) return true;
  return Error{Code::kInvalidArgument,
               Cat(Shown(places.out), ": expected a task of this refit, found one of another"),
               "--force writes it again"};
}

std::string WhenDone(const RefitShare& share, const Places& places) {
  if (!share.task) return "";
  return Cat("when all tasks are done:\n  ", JoinCommandText(places.whole), "\n");
}

// For a store alone, and for a task that has nothing left to do.
Result<int> ReportStore(const Arguments& arguments, const RefitShare& share, const Places& places,
                        const RefitDone& done, const std::string& what) {
  Json document = RefitToJson(done.record);
  if (share.task) document["task"] = share.task->index;
  if (share.task) document["tasks"] = share.task->count;
  SHARD_CHECK(arguments.json ? WriteJsonResult(document)
                             : WriteReport(Cat(RefitText(done.record), what.empty() ? "" : "\n",
                                               what, WhenDone(share, places)),
                                           RefittedLine(done.record)));
  return kExitDone;
}

Result<int> WriteAll(const Arguments& arguments, const RefitShare& share, const Places& places,
                     const RefitDone& done, Inputs inputs) {
  const auto started = std::chrono::steady_clock::now();
  SHARD_TRY(const PartSelection parts, PartsOf(arguments, share, done.groups, inputs.plan));
  SHARD_TRY(const manifest::WriteReport report,
            WriteRefitted(arguments, places, parts, std::move(inputs)));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  const WriteOutcome outcome{places.out, report, seconds.count()};
  Json document = WrittenJson(outcome);
  document["refit"] = RefitToJson(done.record);
  SHARD_CHECK(arguments.json ? WriteJsonResult(document)
                             : WriteReport(Cat(RefitText(done.record), "\n", WrittenText(outcome),
                                               WhenDone(share, places)),
                                           WrittenLine(outcome)));
  return kExitDone;
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckRefitSteps(arguments.refit.options));
  SHARD_TRY(const std::optional<TaskNumber> task, ChooseTask(arguments.task));
  SHARD_CHECK(CheckOutputs(arguments, task));
  SHARD_TRY(Inputs inputs, ReadInputs(arguments));
  SHARD_TRY(const RefitShare share, ShareOf(arguments, task, inputs.plan));
  const Places places = PlacesOf(arguments, task);
  const RefitRun run{inputs.source.loaded,
                     inputs.plan,
                     inputs.model->Version(""),
                     arguments.refit,
                     places.store,
                     inputs.source.moments.get(),
                     share};
  if (arguments.dry_run) {
    SHARD_TRY(const RefitNeeds needs, EstimateNeeds(run));
    SHARD_CHECK(arguments.json ? WriteJsonResult(RefitNeedsJson(needs))
                               : WriteReport(RefitNeedsText(needs), RefitNeedsLine(needs)));
    return kExitDone;
  }
  SHARD_TRY(const RefitDone done, RunRefit(run));
  if (done.groups.empty())
    return ReportStore(arguments, share, places, done,
                       Cat("nothing to do: there are fewer different groups than tasks\n"));
  if (share.task && !arguments.force) {
    SHARD_TRY(const bool written, IsWritten(places, done));
    if (written)
      return ReportStore(
          arguments, share, places, done,
          Cat("nothing to do: ", Shown(places.out.empty() ? places.store : places.out),
              " is there already\n"));
  }
  if (places.out.empty()) return ReportStore(arguments, share, places, done, "");
  return WriteAll(arguments, share, places, done, std::move(inputs));
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "SRC",
                   "The model: a GGUF (file, split set, directory) or a safetensors checkpoint. Or "
                   "a distribution of it, whose plan is refitted then, with --against.",
                   arguments->runtime.source, arguments->runtime);
  app.add_option("--plan", arguments->plan,
                 "The plan that says what each group holds, as `moepack plan -o` writes it. A "
                 "distribution has its own.")
      ->type_name("FILE");
  app.add_option("--against", arguments->against,
                 "The model that the distribution SRC was made from: its experts are refitted.")
      ->type_name("SRC");
  AddRefitMethod(app, arguments->refit);
  AddRefitResources(app, "", arguments->refit);
  StartSection(app, "Text");
  app.add_option(
         "--statistics", arguments->statistics,
         "What the model's routers choose, as `moepack profile` measured it: it shows which group "
         "a text belongs to, if the plan has no placement table or another one. "
         "The distribution gets the table.")
      ->type_name("FILE");
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments->out,
                 Cat("The distribution's directory. Its types are the source's; `build "
                     "--refit-store` writes others. ",
                     kOutputDirectoryHelp))
      ->type_name("DIR");
  app.add_option("--store", arguments->store,
                 "Where refitted experts go, layer by layer. An interrupted run resumes there. "
                 "Default: the distribution's directory name plus .refit.")
      ->type_name("DIR");
  app.add_option("--only", arguments->only,
                 "Refit only these groups, group:G with commas between them, and write a part that "
                 "`moepack join` joins with the others. Of a distribution, the parts trunk, "
                 "overlay and assets can be named, too. May be repeated.")
      ->type_name("PART")
      ->allow_extra_args(false);
  AddForce(app, arguments->force);
  AddTask(app, arguments->task);
  app.get_option("--only")->excludes(app.get_option("--task"));
  AddExecutor(app, arguments->runtime);
  AddDryRun(app, arguments->dry_run);
  AddJson(app, arguments->json);
  return [arguments] {
    arguments->refit.options.jobs = arguments->runtime.load.jobs;
    arguments->refit.options.executor = arguments->runtime.executor;
    return Run(*arguments);
  };
}

}  // namespace
}  // namespace refit_command

constinit const Command kRefit = {
    "refit",
    "Refits the experts that each group keeps, on calibration text",
    "Changes kept experts and their router rows, layer by layer, so that a node's answers are "
    "close to those of the whole model; the trunk stays as it is. Part of the text is held out, "
    "and a step is kept only if it helps there. docs/refit.md explains the method.",
    {"moepack refit fixtures/tiny-moe --plan plan.json --text fixtures/texts/calibration.jsonl "
     "--dry-run -o refitted --force",
     "moepack refit fixtures/tiny-moe --plan plan.json --text fixtures/texts/calibration.jsonl "
     "--steps ridge -o refitted --force"},
    {"--plan", "--text", "--store", "--output", "--against", "--held-out-text", "--memory",
     "--executor", "--dry-run", "--force"},
    refit_command::Bind};

}  // namespace moepack::cli
