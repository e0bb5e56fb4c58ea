#include "tools/commands/write_command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "manifest/write/output_path.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/commands/calibrate_run.h"
#include "tools/commands/task_run.h"
#include "tools/options/budget_options.h"
#include "tools/options/output_file.h"
#include "tools/options/plan_source.h"
#include "tools/options/source.h"
#include "tools/options/statistics_options.h"
#include "tools/reports/write_report.h"

namespace moepack::cli {
namespace {

void AddLayoutOptions(CLI::App& app, WriteArguments& arguments) {
  manifest::WriteOptions& write = arguments.write;
  CLI::Option* only =
      app.add_option("--only", arguments.only,
                     "Write only these parts: trunk, group:G, overlay, assets or remainder, with "
                     "commas between them. May be repeated; a later run with other parts extends "
                     "the same distribution.")
          ->type_name("PART")
          ->allow_extra_args(false);
  Offer(only, {"trunk", "group:", "overlay", "assets", "remainder"});
  app.add_flag(
         "--keep-remainder", write.slice.keep_remainder,
         "Also write the experts of no group, into remainder/. Where --only chooses parts, --only "
         "remainder does it.")
      ->excludes(only);
  app.add_option("--max-part-size", write.slice.max_part_size,
                 "Cut parts into files of at most this size: 5G, 512MiB. A tensor is never cut.")
      ->type_name("SIZE")
      ->transform(AsBytes(kLeastPartSize));
}

void AddRecordOptions(CLI::App& app, manifest::WriteOptions& write) {
  app.add_option("--model-id", write.model_id,
                 "Name of the model in distribution.json, such as Qwen/Qwen3-30B-A3B.")
      ->type_name("ID")
      ->check(AsUtf8());
  app.add_option("--revision", write.revision,
                 "Revision of the model in distribution.json; part of the model version.")
      ->type_name("REV")
      ->check(AsUtf8());
  app.add_flag("--hash-source", write.hash_source,
               "Record the SHA-256 of every source file. Reads the source once more.");
  app.add_flag("--verify-source", write.verify_source,
               "The same, and compare it with the SHA-256 that the Hub publishes: every file is "
               "fetched whole, and none of it is kept.")
      ->excludes(app.get_option("--hash-source"));
  AddChunkMap(app, write.pack.cell_bytes);
}

void AddRunOptions(CLI::App& app, WriteArguments& arguments) {
  AddForce(app, arguments.write.force);
  AddMemory(app, arguments.write.pack.memory);
  AddJobs(app, arguments.write.pack.jobs);
  AddDryRun(app, arguments.dry_run);
  AddTensors(app, arguments.write.list_types);
  AddJson(app, arguments.json);
}

// What is decided from the arguments and is needed only until the job is made.
struct Choices {
  std::optional<PlanOptions> planned_from;  // with the partition chosen; no value: the plan is read
  QuantizeArguments quantize;               // with the types that a plan pins
  const CalibrateArguments& calibrate;
};

// The command line as distribution.json records it: the options that determine the bytes, without
// paths and --jobs.
std::vector<std::string> RecordCommand(const char* command, const Choices& choices,
                                       const manifest::WriteOptions& write) {
  std::vector<std::string> words = {command};
  const auto append = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  append(choices.planned_from ? RecordPlanOptions(*choices.planned_from)
                              : std::vector<std::string>{"--plan"});
  if (write.gguf) {
    append({"--format", "gguf"});
    append(RecordQuantizeOptions("--quantize", choices.quantize));
  }
  // A remainder that --only makes is recorded like that of a whole run.
  if (write.slice.keep_remainder || write.slice.parts.remainder) append({"--keep-remainder"});
  if (write.slice.refit != nullptr) append({"--refit-store"});
  if (write.slice.calibrated != nullptr) append(RecordCalibrateOptions(choices.calibrate));
  if (write.slice.max_part_size > 0)
    append({"--max-part-size", std::to_string(write.slice.max_part_size)});
  if (write.hash_source) append({"--hash-source"});
  if (write.verify_source) append({"--verify-source"});
  if (write.pack.cell_bytes > 0) append({"--chunk-map"});
  return words;
}

std::vector<std::string> InputsOf(const WriteArguments& arguments) {
  std::vector<std::string> inputs = {arguments.plan_file};
  AddNamedFiles(arguments.source.model, inputs);
  AddNamedFiles(arguments.plan, inputs);
  AddNamedFiles(arguments.quantize, inputs);
  AddNamedFiles(arguments.calibrate, inputs);
  return inputs;
}

// Refuses an output that exists before any warning and any long work.
Status CheckOutput(const SourceTree& source, const WriteArguments& arguments) {
  if (arguments.out.empty() && arguments.dry_run) return Ok();
  // An output that is also the source is not told to use --force.
  if (const auto directory = source.LocalPath(""))
    SHARD_CHECK(manifest::CheckOutputApart(arguments.out, *directory));
  if (!arguments.only.empty()) return Ok();
  SHARD_CHECK(CheckHoldsNoInput(arguments.out, InputsOf(arguments)));
  return manifest::CheckReplaceable(arguments.out, arguments.write.force || arguments.dry_run);
}

Result<Plan> FindPlan(const MoeModel& model, const WriteArguments& arguments, Choices& choices) {
  if (!arguments.plan_file.empty())
    return ReadPlan(arguments.plan_file, arguments.source.source, model);
  choices.planned_from = arguments.plan;
  return PlanFromOptions(model, *choices.planned_from);
}

// Decides between safetensors and GGUF using --format, the options about types, and the source, and
// returns how the types of GGUF bundles are chosen. Refuses options that would be ignored.
Result<std::optional<QuantizeOptions>> ChooseTypes(const MoeModel& model, const Plan& plan,
                                                   const WriteArguments& arguments,
                                                   Choices& choices) {
  QuantizeArguments& quantize = choices.quantize;
  if (plan.types) SHARD_CHECK(TakePinnedTypes(arguments.plan_file, *plan.types, quantize));
  const bool types = WantsTypes(quantize);
  const bool gguf = arguments.container.empty() ? types || model.checkpoint().is_gguf()
                                                : arguments.container == "gguf";
  SHARD_CHECK(CheckQuantizeOptions(quantize));
  if (!quantize.options.recipe.overlay_type.empty() && plan.overlays.empty()) {
    return Error{Code::kInvalidArgument, "--overlay-type has no effect: the plan has no overlay",
                 "--overlay-file names the experts of an overlay"};
  }
  if (gguf) {
    SHARD_TRY(QuantizeOptions options, ReadQuantizeOptions(quantize));
    options.recipe.measured_later = arguments.calibrate.wanted();
    return std::optional(std::move(options));
  }
  if (quantize.options.alignment != kGgufDefaultAlignment) {
    return Error{Code::kInvalidArgument, "--alignment has no effect on safetensors bundles",
                 "--format gguf writes GGUF bundles"};
  }
  if (arguments.write.list_types) {
    return Error{Code::kInvalidArgument,
                 "--tensors has no effect on safetensors bundles, which keep the source's "
                 "names and types",
                 "choose types, or add --format gguf"};
  }
  if (!types) return std::optional<QuantizeOptions>();
  return Error{Code::kInvalidArgument,
               "--format safetensors cannot be used with options that choose types or "
               "steer the conversion",
               "safetensors bundles keep the source's bytes; --format gguf writes others"};
}

// Quantizes with the inputs that the refit saw for the matrices, unless another importance matrix
// is named, or none is wanted.
Status TakeImportance(const WriteArguments& arguments, const RefitStore& store, Choices& choices,
                      WriteJob& job) {
  const std::string file = (fs::path(job.refit_store) / kRefitImatrix).string();
  const bool wanted = ChoosesTypes(choices.quantize) && !arguments.no_refit_imatrix &&
                      choices.quantize.options.imatrix_file.empty();
  if (!wanted || !job.write.gguf) return Ok();
  SHARD_TRY(const bool there, IsThere(file));
  if (!there) return Ok();
  choices.quantize.options.imatrix_file = file;
  job.write.gguf->imatrix_file = file;
  if (store.part())
    PrintNotes({Cat(Shown(file), " has the inputs of ", PartGroupsText(store.part()),
                    ": what it weighs cannot be joined with what other parts of the refit give; "
                    "with --no-refit-imatrix, or the same --imatrix for all, it can")});
  return Ok();
}

// Reads the refit store, if there is one.
Status TakeRefit(const MoeModel& model, const WriteArguments& arguments, Choices& choices,
                 WriteJob& job) {
  if (job.refit_store.empty()) {
    if (!arguments.no_refit_imatrix) return Ok();
    return Error{Code::kInvalidArgument,
                 "--no-refit-imatrix has no effect without refitted experts", "leave it out"};
  }
  SHARD_TRY(const RefitStore store, RefitStore::Open(job.refit_store));
  SHARD_TRY(RefitTensors refit, RefitTensors::Of(store, model, job.plan, job.write.slice.parts));
  job.refit = std::make_shared<const RefitTensors>(std::move(refit));
  job.write.slice.refit = job.refit.get();
  return TakeImportance(arguments, store, choices, job);
}

std::string CalibratedStoreOf(const WriteArguments& arguments) {
  const std::string& store = arguments.calibrate.store;
  return store.empty() ? CalibratedStoreBeside(arguments.out) : store;
}

// Encodes with error feedback, or takes what a store has.
Status TakeCalibrated(const MoeModel& model, const WriteArguments& arguments, WriteJob& job) {
  const CalibrateArguments& calibrate = arguments.calibrate;
  if (!calibrate.wanted()) return Ok();
  if (!job.write.gguf)
    return Error{Code::kInvalidArgument,
                 Cat(calibrate.runs() ? "--calibrate" : "--calibrated-store",
                     " has no effect on safetensors bundles, which keep the source's types"),
                 "--quantize chooses types"};
  QuantizeOptions quantize = *job.write.gguf;
  quantize.model_id = job.write.model_id;
  SHARD_TRY(const TypedGguf typed, PrepareGguf(model, quantize));
  CalibrateRun run{
      job.source,          arguments.source, model, typed, calibrate, CalibratedStoreOf(arguments),
      job.write.pack.jobs, job.task};
  std::optional<RefitStore> refit;
  if (job.refit) {
    SHARD_TRY(refit, RefitStore::Open(job.refit_store));
    run.groups.emplace(RefittedGroups{job.plan, *refit});
  }
  if (calibrate.runs() && job.dry_run) {
    SHARD_TRY(job.needs, EstimateNeeds(run));
    // Its keys take their room in the head.
    job.calibrated =
        std::make_shared<const CalibratedTensors>(CalibratedTensors::Stated(RecordBefore(run)));
    job.write.slice.calibrated = job.calibrated.get();
    return Ok();
  }
  double seconds = 0;
  if (calibrate.runs()) {
    SHARD_TRY(seconds, RunCalibration(run));
  }
  const size_t refitted = job.refit ? job.refit->files().size() : 0;
  SHARD_TRY(job.calibrated, OpenCalibrated(run, model.checkpoint().files().size() + refitted));
  job.calibrated_store = run.store;
  job.write.slice.calibrated = job.calibrated.get();
  PrintNotes({CalibratedSummary(job.calibrated->record(), seconds)});
  if (refitted > 0 && !job.calibrated->record().groups)
    PrintNotes({Cat(run.store,
                    " has no groups: refitted experts are encoded without feedback; "
                    "--calibrate encodes them with it")});
  return Ok();
}

// What no task can do, because each has only a share.
Status CheckTaskOptions(const manifest::WriteOptions& write) {
  if (write.hash_source || write.verify_source) {
    return NotInTask(write.hash_source ? "--hash-source" : "--verify-source",
                     "each task would read every source file whole; to record their digests, "
                     "build without tasks");
  }
  return write.list_types ? NotInTask("--tensors", "without --task they are listed") : Ok();
}

// What the arguments alone decide.
Result<WriteJob> StartJob(const WriteArguments& arguments, const OwnSteps& own) {
  if (arguments.plan_file.empty()) SHARD_CHECK(CheckPlanOptions(arguments.plan));
  WriteJob job;
  job.out = arguments.out;
  job.dry_run = arguments.dry_run;
  job.json = arguments.json;
  job.write = arguments.write;
  job.write.notes = PrintNotes;
  job.write.warnings = PrintWarnings;
  SHARD_TRY(job.task, ChooseTask(arguments.task));
  if (job.task && own.check_task) SHARD_CHECK(own.check_task());
  if (job.task) SHARD_CHECK(CheckTaskOptions(arguments.write));
  const CalibrateArguments& calibrate = arguments.calibrate;
  SHARD_CHECK(CheckCalibrate(calibrate));
  if (!calibrate.wanted()) return job;
  SHARD_CHECK(CheckDirectoriesApart({"--output", arguments.out},
                                    {"--calibrated-store", CalibratedStoreOf(arguments)}));
  return job;
}

Result<MoeModel> OpenSourceOf(const WriteArguments& arguments, WriteJob& job) {
  SHARD_TRY(job.source, OpenSource(arguments.source.source, arguments.source.remote));
  if (!job.task) SHARD_CHECK(CheckOutput(*job.source.tree, arguments));
  job.write.side_files = SideFiles::Note(job.source.tree, arguments.source.model.config_file);
  SHARD_TRY(MoeModel model, OpenModel(job.source, arguments.source));
  job.source_bytes = SizeOfFiles(model.checkpoint());
  return model;
}

}  // namespace

void AddPlanOrFile(CLI::App& app, WriteArguments& arguments) {
  AddPlanOptions(app, arguments.plan);
  CLI::Option* plan = app.add_option("--plan", arguments.plan_file,
                                     "Use this plan (from `moepack plan`) instead of --groups, "
                                     "--partition, --overlay-file, --uniform, --statistics and "
                                     "--eligible. The directory of a distribution of the same "
                                     "model stands for its plan.")
                          ->type_name("FILE");
  for (const char* name :
       {"--groups", "--partition", "--overlay-file", "--uniform", "--statistics", "--eligible"})
    plan->excludes(app.get_option(name));
}

void AddWriteOptions(CLI::App& app, WriteArguments& arguments) {
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments.out,
                 Cat("The distribution's directory. ", kOutputDirectoryHelp,
                     " A killed run resumes there when it is started again."))
      ->type_name("DIR")
      ->required();
  app.add_option("--format", arguments.container,
                 "Format of the bundles: safetensors, or gguf for stock llama.cpp. Default: gguf "
                 "for a GGUF source and wherever an option chooses types (--recipe, --pure, "
                 "--trunk-type and so on) or steers the conversion (--pre, --no-mtp), else "
                 "safetensors.")
      ->type_name("FORMAT")
      ->transform(OneOf({"safetensors", "gguf"}));
  AddQuantizeOptions(app, arguments.quantize);
  StartSection(app, "Conversion and quantization");
  CLI::Option* overlay_type =
      app.add_option("--overlay-type", arguments.quantize.options.recipe.overlay_type,
                     "Type of the overlay's experts. Nodes for a stock runtime cannot be assembled "
                     "from an overlay of another type than the groups.")
          ->type_name("TYPE");
  Offer(overlay_type, EncodedTypes());
  StartSection(app, "Refit");
  app.add_option("--refit-store", arguments.refit_store,
                 "Write these refitted experts and router rows (from `moepack refit`) instead of "
                 "the source's, for the same source and plan. A part of a refit (`refit --only`) "
                 "is enough if it has the groups that are written (--only).")
      ->type_name("DIR");
  app.add_flag("--no-refit-imatrix", arguments.no_refit_imatrix,
               "Quantize refitted experts without the importance matrix that the refit made. By "
               "default that matrix is used unless --imatrix names another.");
  AddCalibratedStore(app, arguments.calibrate);
  StartSection(app, "Output");
  AddLayoutOptions(app, arguments);
  AddRecordOptions(app, arguments.write);
  app.add_flag("--keep-partial", arguments.write.pack.keep_partial,
               "Keep the partial output when an error ends the run, to resume from there.");
  AddRunOptions(app, arguments);
  AddTask(app, arguments.task);
}

Result<WriteJob> MakeWriteJob(const char* command, const WriteArguments& arguments,
                              const OwnSteps& own) {
  SHARD_TRY(WriteJob job, StartJob(arguments, own));
  SHARD_TRY(MoeModel model, OpenSourceOf(arguments, job));
  Choices choices{{}, arguments.quantize, arguments.calibrate};
  SHARD_TRY(job.plan, FindPlan(model, arguments, choices));
  if (own.plan) SHARD_CHECK(own.plan(job.plan));
  SHARD_TRY(job.write.slice.parts, ParseParts(arguments.only, job.plan.groups.size()));
  SHARD_TRY(job.write.gguf, ChooseTypes(model, job.plan, arguments, choices));
  PrintWarnings(
      PlanWarnings(model, job.plan, choices.planned_from ? &*choices.planned_from : nullptr));
  job.refit_store = arguments.refit_store;
  if (own.store) {
    SHARD_TRY(job.refit_store, own.store(model, job));
  }
  SHARD_CHECK(TakeRefit(model, arguments, choices, job));
  SHARD_CHECK(TakeCalibrated(model, arguments, job));
  job.write.command = RecordCommand(command, choices, job.write);
  job.write.command.insert(job.write.command.end(), own.words.begin(), own.words.end());
  SHARD_CHECK(CheckRecorded(job.write.command));
  SHARD_TRY(job.draft, manifest::DraftDistribution(std::move(model), job.plan, job.out, job.write));
  return job;
}

Result<TimedWrite> WriteWithProgress(WriteJob& job) {
  Progress progress("writing");
  manifest::WriteOptions options = job.write;
  options.pack.progress = progress.Shows();
  SHARD_TRY(manifest::WriteReport report,
            manifest::WriteDraft(std::move(job.draft), job.out, options));
  PrintNotes(GridNotes(report.pack));
  PrintWarnings(NotFiniteWarnings(report.pack));
  PrintWarnings(report.warnings);
  return TimedWrite{std::move(report), progress.seconds()};
}

Result<int> RunDryRun(const WriteJob& job) {
  const manifest::WritePlan& files = job.draft.files;
  PrintNotes(files.notes);
  PrintWarnings(files.warnings);
  const std::vector<SourceFile>& sources = job.draft.sources;
  FetchEstimate estimate = EstimateFetch(sources, files.files, job.write.pack);
  if (job.write.hash_source || job.write.verify_source) AddWholeFiles(sources, estimate);
  SHARD_TRY(const FetchReport fetch, MeasureFetch(sources, estimate));
  const DryRun run{job.out, files.plan, files, fetch, job.needs};
  NoteTraffic(*job.source.tree, job.source_bytes);
  SHARD_CHECK(job.json ? WriteJsonResult(DryRunJson(run))
                       : WriteReport(DryRunText(run), DryRunLine(run)));
  return kExitDone;
}

Result<int> RunWriteTask(WriteJob& job) {
  TaskRun run{job.out, {}, job.json};
  run.task.number = *job.task;
  run.task.pack = job.write.pack;
  run.task.force = job.write.force;
  run.task.dry_run = job.dry_run;
  run.needs = job.needs;
  SHARD_TRY(const int status, RunTask(std::move(job.draft), run));
  NoteTraffic(*job.source.tree, job.source_bytes);
  return status;
}

}  // namespace moepack::cli
