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
  app.add_flag(
         "--keep-remainder", write.slice.keep_remainder,
         "Also write the experts that are on no node, into remainder/. Where --only chooses parts, "
         "--only remainder does it.")
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

std::vector<std::string> RecordWriteOptions(const WriteArguments& arguments) {
  std::vector<std::string> words;
  const manifest::WriteOptions& write = arguments.write;
  if (write.gguf) {
    words = RecordQuantizeOptions("--quantize", arguments.quantize);
    words.insert(words.begin(), {"--format", "gguf"});
  }
  // A remainder that --only makes is recorded like that of a whole run.
  const bool remainder = write.slice.keep_remainder || write.slice.parts.remainder;
  if (remainder) words.push_back("--keep-remainder");
  if (write.slice.refit != nullptr) words.push_back("--refit-store");
  if (write.slice.max_part_size > 0)
    words.insert(words.end(), {"--max-part-size", std::to_string(write.slice.max_part_size)});
  if (write.hash_source) words.push_back("--hash-source");
  if (write.verify_source) words.push_back("--verify-source");
  if (write.pack.cell_bytes > 0) words.push_back("--chunk-map");
  return words;
}

std::vector<std::string> InputsOf(const WriteArguments& arguments) {
  std::vector<std::string> inputs = {arguments.plan_file};
  AddNamedFiles(arguments.source.model, inputs);
  AddNamedFiles(arguments.plan, inputs);
  AddNamedFiles(arguments.quantize, inputs);
  return inputs;
}

// Quantizes with the inputs that the refit saw for the matrices, unless another importance matrix
// is named, or none is wanted.
Status TakeImportance(WriteArguments& arguments) {
  const std::string file = (fs::path(arguments.refit_store) / kRefitImatrix).string();
  const bool wanted = ChoosesTypes(arguments.quantize) && !arguments.no_refit_imatrix &&
                      arguments.quantize.options.imatrix_file.empty();
  if (!wanted || !arguments.write.gguf) return Ok();
  SHARD_TRY(const bool there, IsThere(file));
  if (!there) return Ok();
  arguments.quantize.options.imatrix_file = file;
  arguments.write.gguf->imatrix_file = file;
  return Ok();
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

Status CheckPlanOrFile(const WriteArguments& arguments) {
  return arguments.plan_file.empty() ? CheckPlanOptions(arguments.plan) : Ok();
}

Result<Plan> FindPlan(const MoeModel& model, WriteArguments& arguments) {
  if (!arguments.plan_file.empty())
    return ReadPlan(arguments.plan_file, arguments.source.source, model);
  return PlanFromOptions(model, arguments.plan);
}

const PlanOptions* PlannedFrom(const WriteArguments& arguments) {
  return arguments.plan_file.empty() ? &arguments.plan : nullptr;
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
  app.add_option(
         "--overlay-type", arguments.quantize.options.recipe.overlay_type,
         "Type of the overlay's experts. Nodes for a stock runtime cannot be assembled from "
         "an overlay of another type than the groups.")
      ->type_name("TYPE");
  StartSection(app, "Output");
  app.add_option("--refit-store", arguments.refit_store,
                 "Write these refitted experts and router rows (from `moepack refit`) instead of "
                 "the source's, for the same source and plan.")
      ->type_name("DIR");
  StartSection(app, "Conversion and quantization");
  app.add_flag("--no-refit-imatrix", arguments.no_refit_imatrix,
               "Quantize refitted experts without the importance matrix that the refit made. By "
               "default that matrix is used unless --imatrix names another.");
  StartSection(app, "Output");
  AddLayoutOptions(app, arguments);
  AddRecordOptions(app, arguments.write);
  app.add_flag("--keep-partial", arguments.write.pack.keep_partial,
               "Keep the partial output when an error ends the run, to resume from there.");
  AddRunOptions(app, arguments);
  AddTask(app, arguments.task);
}

Status CheckOutput(const SourceTree& source, const WriteArguments& arguments) {
  if (arguments.out.empty() && arguments.dry_run) return Ok();
  // An output that is also the source is not told to use --force.
  if (const auto directory = source.LocalPath(""))
    SHARD_CHECK(manifest::CheckOutputApart(arguments.out, *directory));
  if (!arguments.only.empty()) return Ok();
  SHARD_CHECK(CheckHoldsNoInput(arguments.out, InputsOf(arguments)));
  return manifest::CheckReplaceable(arguments.out, arguments.write.force || arguments.dry_run);
}

Status ChooseParts(const Plan& plan, WriteArguments& arguments) {
  SHARD_TRY(arguments.write.slice.parts, ParseParts(arguments.only, plan.groups.size()));
  return Ok();
}

Status ChooseRefit(const MoeModel& model, const Plan& plan, WriteArguments& arguments) {
  if (arguments.refit_store.empty()) {
    if (!arguments.no_refit_imatrix) return Ok();
    return Error{Code::kInvalidArgument,
                 "--no-refit-imatrix has no effect without refitted experts", "leave it out"};
  }
  SHARD_TRY(const RefitStore store, RefitStore::Open(arguments.refit_store));
  SHARD_TRY(RefitTensors refit, RefitTensors::Of(store, model, plan));
  arguments.refit = std::make_shared<const RefitTensors>(std::move(refit));
  arguments.write.slice.refit = arguments.refit.get();
  return TakeImportance(arguments);
}

Status ChooseContainer(const MoeModel& model, const Plan& plan, WriteArguments& arguments) {
  if (plan.types) {
    SHARD_CHECK(TakePinnedTypes(arguments.plan_file, *plan.types, arguments.quantize));
  }
  const bool gguf_source = model.checkpoint().is_gguf();
  const bool types = WantsTypes(arguments.quantize);
  if (arguments.container.empty()) {
    arguments.container = types || gguf_source ? "gguf" : "safetensors";
  }
  SHARD_CHECK(CheckQuantizeOptions(arguments.quantize));
  if (!arguments.quantize.options.recipe.overlay_type.empty() && plan.overlays.empty()) {
    return Error{Code::kInvalidArgument, "--overlay-type has no effect: the plan has no overlay",
                 "--overlay-file names the experts of an overlay"};
  }
  if (arguments.container == "gguf") {
    SHARD_TRY(arguments.write.gguf, ReadQuantizeOptions(arguments.quantize));
    return Ok();
  }
  if (arguments.quantize.options.alignment != kGgufDefaultAlignment) {
    return Error{Code::kInvalidArgument, "--alignment has no effect on safetensors bundles",
                 "--format gguf writes GGUF bundles"};
  }
  if (arguments.write.list_types) {
    return Error{Code::kInvalidArgument,
                 "--tensors has no effect on safetensors bundles, which keep the source's "
                 "names and types",
                 "choose types, or add --format gguf"};
  }
  if (!types) return Ok();
  return Error{Code::kInvalidArgument,
               "--format safetensors cannot be used with options that choose types or "
               "steer the conversion",
               "safetensors bundles keep the source's bytes; --format gguf writes others"};
}

Result<TimedWrite> WriteWithProgress(MoeModel model, const Plan& plan,
                                     const WriteArguments& arguments) {
  Progress progress("writing");
  manifest::WriteOptions options = arguments.write;
  options.pack.progress = progress.Shows();
  options.notes = PrintNotes;
  options.warnings = PrintWarnings;
  SHARD_TRY(manifest::WriteReport report,
            manifest::WriteDistribution(std::move(model), plan, arguments.out, options));
  PrintNotes(GridNotes(report.pack));
  PrintWarnings(NotFiniteWarnings(report.pack));
  PrintWarnings(report.warnings);
  return TimedWrite{std::move(report), progress.seconds()};
}

Result<int> RunDryRun(const MoeModel& model, const Plan& plan, const WriteArguments& arguments) {
  if (!arguments.out.empty()) SHARD_CHECK(manifest::CheckTarget(model, arguments.out));
  SHARD_TRY(const manifest::WritePlan files,
            manifest::PlanDistribution(model, plan, arguments.write));
  PrintNotes(files.notes);
  PrintWarnings(files.warnings);
  const std::vector<SourceFile>& sources = model.checkpoint().files();
  FetchEstimate estimate = EstimateFetch(sources, files.files, arguments.write.pack);
  if (arguments.write.hash_source || arguments.write.verify_source)
    AddWholeFiles(sources, estimate);
  SHARD_TRY(const FetchReport fetch, MeasureFetch(sources, estimate));
  const DryRun run{arguments.out, files.plan, files, fetch};
  NoteTraffic(*model.checkpoint().tree(), SizeOfFiles(model.checkpoint()));
  SHARD_CHECK(arguments.json ? WriteJsonResult(DryRunJson(run)) : WriteResult(DryRunText(run)));
  return kExitDone;
}

Result<int> RunWriteTask(MoeModel model, const Plan& plan, const TaskNumber& task,
                         const WriteArguments& arguments) {
  const manifest::WriteOptions& write = arguments.write;
  if (write.hash_source || write.verify_source) {
    return NotInTask(write.hash_source ? "--hash-source" : "--verify-source",
                     "each task would read every source file whole; to record their digests, "
                     "build without tasks");
  }
  if (write.list_types) return NotInTask("--tensors", "without --task they are listed");
  const SourceTreePtr tree = model.checkpoint().tree();
  const uint64_t source_bytes = SizeOfFiles(model.checkpoint());
  SHARD_TRY(manifest::Draft draft,
            manifest::DraftDistribution(std::move(model), plan, arguments.out, write));
  TaskRun run{arguments.out, {}, arguments.json};
  run.task.number = task;
  run.task.pack = write.pack;
  run.task.force = write.force;
  run.task.dry_run = arguments.dry_run;
  SHARD_TRY(const int status, RunTask(std::move(draft), run));
  NoteTraffic(*tree, source_bytes);
  return status;
}

std::vector<std::string> RecordCommand(const char* command, const WriteArguments& arguments) {
  std::vector<std::string> words = {command};
  const auto append = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  append(arguments.plan_file.empty() ? RecordPlanOptions(arguments.plan)
                                     : std::vector<std::string>{"--plan"});
  append(RecordWriteOptions(arguments));
  return words;
}

}  // namespace moepack::cli
