#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf_set.h"
#include "libshard/format/side_files.h"
#include "libshard/pack/check_outputs.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/recipe/recipe_text.h"
#include "manifest/document/manifest.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/commands/calibrate_run.h"
#include "tools/commands/pack_files.h"
#include "tools/commands/quantize_run.h"
#include "tools/commands/task_run.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/source.h"
#include "tools/reports/fetch_report.h"
#include "tools/reports/planning/type_report.h"

namespace moepack::cli {
namespace quantize_command {
namespace {

namespace fs = moepack::fs;

constexpr std::string_view kExtension = ".gguf";

using Arguments = QuantizeRun;

// Values and bytes of one kind of tensor, for bits per weight.
struct Share {
  uint64_t values = 0, bytes = 0;
  double bits() const {
    return values == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
  }
};

struct Outcome {
  const Arguments& arguments;
  std::vector<OutputFile>& files;
  std::vector<TensorType> tensors;  // with --tensors
  std::map<std::string, Share> parts, types;
  Share all;
  PackResult pack;
  double seconds = 0;
  FetchReport fetch;  // with --dry-run
  // Of a calibration: what it would need, with --dry-run, or what it made.
  std::optional<CalibrateNeeds> needs = std::nullopt;
  std::shared_ptr<const CalibratedTensors> calibrated = nullptr;
  double calibrate_seconds = 0;          // of a run; 0 for a store that was there
  std::vector<SourceFile> sources = {};  // that are read
};

void CountShares(const GgufModel& model, Outcome& outcome) {
  for (const GgufTensor& tensor : model.tensors) {
    const std::string part(PartName(tensor.part));
    for (Share* share :
         {&outcome.parts[part], &outcome.types[std::string(tensor.type->name)], &outcome.all}) {
      share->values += tensor.elements();
      share->bytes += tensor.bytes();
    }
  }
}

std::string ShareTable(const char* what, const std::map<std::string, Share>& shares) {
  Table table({what, ">weights", ">bytes", ">bits per weight"});
  for (const auto& [name, share] : shares) {
    table.Row(
        {name, FormatCount(share.values), FormatCount(share.bytes), FixedPoint(share.bits())});
  }
  return table.Render();
}

// A file of a split output, in the directory of the output.
std::string InOutput(const Arguments& arguments, const OutputFile& file) {
  return (fs::path(arguments.out).parent_path() / file.path).string();
}

uint64_t TotalBytes(const std::vector<OutputFile>& files) {
  uint64_t total = 0;
  for (const OutputFile& file : files) total += file.size;
  return total;
}

std::string ReportLine(const Outcome& outcome) {
  const Arguments& arguments = outcome.arguments;
  std::string text = Cat(
      arguments.dry_run ? "would write " : "wrote ", ExactBytes(TotalBytes(outcome.files)), " to ",
      outcome.files.size() == 1 ? Shown(arguments.out)
                                : Cat(outcome.files.size(), " files, the first is ",
                                      Shown(InOutput(arguments, outcome.files[0]))));
  if (!arguments.dry_run) {
    text += Cat(" in ", FormatElapsed(outcome.seconds), " (",
                FormatRate(outcome.pack.read_bytes, outcome.seconds), " read)");
  }
  if (outcome.calibrated)
    text += Cat("; ", CalibratedSummary(outcome.calibrated->record(), outcome.calibrate_seconds));
  return Cat(text, "; ", FixedPoint(outcome.all.bits()), " bits per weight");
}

std::string ReportText(const Outcome& outcome) {
  std::string text = outcome.tensors.empty() ? "" : TypeTable(outcome.tensors) + "\n";
  text += Cat(ShareTable("part", outcome.parts), "\n", ShareTable("type", outcome.types), "\n",
              ReportLine(outcome), "\n");
  if (outcome.needs) text += CalibrateNeedsText(*outcome.needs);
  return text + FetchText(outcome.fetch);
}

Json ShareJson(const std::map<std::string, Share>& shares) {
  Json out = Json::object();
  for (const auto& [name, share] : shares) {
    out[name] = {{"weights", share.values}, {"bytes", share.bytes}, {"bits", share.bits()}};
  }
  return out;
}

Json ReportJson(const Outcome& outcome) {
  Json files = Json::array();
  for (size_t i = 0; i < outcome.files.size(); ++i) {
    const OutputFile& file = outcome.files[i];
    files.push_back({{"file", file.path}, {"tensors", file.tensors.size()}, {"bytes", file.size}});
    if (i < outcome.pack.files.size()) files.back()["sha256"] = outcome.pack.files[i].sha256;
  }
  Json document = {{"output", outcome.arguments.out},
                   {"dry_run", outcome.arguments.dry_run},
                   {"recipe", RecipeText(outcome.arguments.quantize.options.recipe)},
                   {"files", std::move(files)},
                   {"bytes", TotalBytes(outcome.files)},
                   {"bits_per_weight", outcome.all.bits()},
                   {"parts", ShareJson(outcome.parts)},
                   {"types", ShareJson(outcome.types)},
                   {"grid", GridJson(outcome.pack)},
                   {"read_bytes", outcome.pack.read_bytes},
                   {"seconds", outcome.seconds}};
  if (outcome.arguments.dry_run) document["fetch"] = FetchJson(outcome.fetch);
  if (outcome.needs) document["calibration"] = CalibrateNeedsJson(*outcome.needs);
  if (outcome.calibrated)
    document["calibration"] =
        CalibratedSummaryJson(outcome.calibrated->record(), outcome.calibrate_seconds);
  if (outcome.arguments.tensors) document["tensors"] = TypesJson(outcome.tensors);
  return document;
}

std::string StoreOf(const Arguments& arguments) {
  const std::string& store = arguments.calibrate.store;
  return store.empty() ? CalibratedStoreBeside(arguments.out) : store;
}

std::vector<std::string> InputsOf(const Arguments& arguments) {
  std::vector<std::string> inputs;
  AddNamedFiles(arguments.source.model, inputs);
  AddNamedFiles(arguments.quantize, inputs);
  AddNamedFiles(arguments.calibrate, inputs);
  return inputs;
}

// An output may be beside the files of the source, but must not be one of them.
Status CheckOutput(const Arguments& arguments, const MoeModel& model, bool task,
                   const std::vector<OutputFile>& files) {
  const fs::path directory = fs::path(arguments.out).lexically_normal().parent_path();
  std::vector<std::string> inputs = InputsOf(arguments);
  inputs.push_back(model.config_path());
  for (const SourceFile& file : model.checkpoint().files()) {
    if (const auto path = file.tree->LocalPath(file.name)) inputs.push_back(*path);
  }
  for (const OutputFile& file : files) SHARD_CHECK(CheckNoInput(directory / file.path, inputs));
  // What a task writes is elsewhere; `join` looks at the output.
  return CheckMayPublish(directory, files, arguments.force || arguments.dry_run || task);
}

Status Write(const SideFiles& noted, Outcome& outcome) {
  const Arguments& arguments = outcome.arguments;
  Progress progress("quantizing");
  PackOptions pack = arguments.pack;
  pack.progress = progress.Shows();
  SHARD_TRY(outcome.pack,
            PackFiles(outcome.sources, outcome.files, {arguments.out, arguments.force}, pack,
                      [&] { return noted.CheckUnchanged(); }));
  outcome.seconds = progress.seconds();
  return Ok();
}

// One task's share of the GGUF.
Result<int> WriteTaskOf(const MoeModel& model, const SideFiles& noted, const TaskNumber& task,
                        const TypedGguf& typed, const Outcome& outcome) {
  const Arguments& arguments = outcome.arguments;
  if (arguments.tensors) return NotInTask("--tensors", "without --task they are listed");
  manifest::Draft draft;
  draft.sources = outcome.sources;
  draft.source_version = model.Version("");
  draft.files.files = outcome.files;
  draft.files.notes = GgufNotes(typed);
  draft.files.warnings = typed.model.faults;
  draft.noted = noted;
  TaskRun run{arguments.out, {}, arguments.json};
  const std::string name = fs::path(arguments.out).filename().string();
  run.task.number = task;
  run.task.pack = arguments.pack;
  run.task.stem = name.substr(0, name.size() - kExtension.size());
  run.task.force = arguments.force;
  run.task.dry_run = arguments.dry_run;
  run.needs = outcome.needs;
  SHARD_TRY(const int status, RunTask(std::move(draft), run));
  NoteTraffic(*model.checkpoint().tree(), SizeOfFiles(model.checkpoint()));
  return status;
}

// What no calibration can do, before anything is opened.
Status CheckCalibration(const Arguments& arguments) {
  const CalibrateArguments& calibrate = arguments.calibrate;
  SHARD_CHECK(CheckCalibrate(calibrate));
  if (!calibrate.wanted()) return Ok();
  return CheckDirectoriesApart({"--output", arguments.out},
                               {"--calibrated-store", StoreOf(arguments)});
}

CalibrateArguments ForThisMemory(const Arguments& arguments) {
  CalibrateArguments calibrate = arguments.calibrate;
  // The default is meant for the buffers of copying.
  if (arguments.pack.memory != PackOptions().memory)
    calibrate.options.memory = arguments.pack.memory;
  return calibrate;
}

// Encodes with error feedback, or takes what a store has, and describes the files again.
Status Calibrate(const moepack::Source& source, const MoeModel& model,
                 const WholeGgufOptions& whole, const std::optional<TaskNumber>& task,
                 TypedGguf& typed, Outcome& outcome) {
  const Arguments& arguments = outcome.arguments;
  const CalibrateArguments calibrate = ForThisMemory(arguments);
  const CalibrateRun run{
      source, arguments.source, model, typed, calibrate, StoreOf(arguments), arguments.pack.jobs,
      task};
  if (calibrate.runs() && arguments.dry_run) {
    SHARD_TRY(outcome.needs, EstimateNeeds(run));
    SetCalibrationKeys(RecordBefore(run), typed.model.metadata);
    SHARD_TRY(outcome.files, WholeGguf(typed.model, whole));
    return Ok();
  }
  if (calibrate.runs()) {
    SHARD_TRY(outcome.calibrate_seconds, RunCalibration(run));
  }
  SHARD_TRY(CalibratedFiles calibrated, WholeCalibrated(run, whole, typed.model));
  outcome.calibrated = std::move(calibrated.tensors);
  outcome.files = std::move(calibrated.files);
  outcome.sources = std::move(calibrated.sources);
  return Ok();
}

// A distribution is requantized from a directory on this machine.
Status CheckIsModel(const moepack::Source& source) {
  if (source.tree->LocalPath("") || !source.file.empty()) return Ok();
  SHARD_TRY(const bool distribution, source.tree->Has(manifest::kManifestFile));
  if (!distribution) return Ok();
  return Error{Code::kUnsupported,
               Cat(source.tree->name(),
                   ": expected a checkpoint or a GGUF, found a distribution on another machine"),
               "quantize the checkpoint that it was made from, or copy the distribution here"};
}

Result<int> QuantizeModel(const Arguments& arguments) {
  SHARD_TRY(const std::optional<TaskNumber> task, ChooseTask(arguments.task));
  const std::string problem = GgufNameProblem(arguments.out);
  if (!problem.empty()) {
    return Error{Code::kInvalidArgument, Cat("--output: ", problem)};
  }
  SHARD_CHECK(CheckNoInput(arguments.out, InputsOf(arguments)));
  SHARD_CHECK(CheckCalibration(arguments));
  if (arguments.pack.cell_bytes > 0) {
    return Error{Code::kInvalidArgument, "--chunk-map has no effect: only distributions have one",
                 "leave it out: a GGUF has no distribution.json to record it in"};
  }
  SHARD_TRY(const moepack::Source source,
            OpenSource(arguments.source.source, arguments.source.remote));
  SHARD_CHECK(CheckIsModel(source));
  const auto noted = SideFiles::Note(source.tree, arguments.source.model.config_file);
  SHARD_TRY(const MoeModel model, OpenModel(source, arguments.source));
  if (model.checkpoint().is_gguf() && !arguments.quantize.options.model_id.empty()) {
    return Error{Code::kInvalidArgument,
                 Cat("--model-id has no effect: ", arguments.source.shown(),
                     " is GGUF already, and nothing is converted"),
                 "leave it out: a GGUF keeps its general.name"};
  }
  SHARD_TRY(QuantizeOptions options, ReadQuantizeOptions(arguments.quantize));
  options.recipe.measured_later = arguments.calibrate.wanted();
  SHARD_TRY(TypedGguf typed, PrepareGguf(model, options));
  const std::string name = fs::path(arguments.out).filename().string();
  const std::string stem = name.substr(0, name.size() - kExtension.size());
  const WholeGgufOptions whole{stem, arguments.max_part_size, options.alignment};
  SHARD_TRY(std::vector<OutputFile> files, WholeGguf(typed.model, whole));
  // With --max-part-size the names of the files are known only when the types are.
  SHARD_CHECK(CheckOutput(arguments, model, task.has_value(), files));
  Outcome outcome{arguments, files, {}, {}, {}, {}, {}, 0, {}};
  outcome.sources = model.checkpoint().files();
  if (task) {
    if (arguments.calibrate.wanted())
      SHARD_CHECK(Calibrate(source, model, whole, task, typed, outcome));
    return WriteTaskOf(model, noted, *task, typed, outcome);
  }
  PrintNotes(GgufNotes(typed));
  PrintWarnings(typed.model.faults);
  if (arguments.tensors) outcome.tensors = ListTypes(typed);
  CountShares(typed.model, outcome);
  if (arguments.calibrate.wanted())
    SHARD_CHECK(Calibrate(source, model, whole, task, typed, outcome));
  if (arguments.dry_run) {
    SHARD_TRY(outcome.fetch,
              MeasureFetch(outcome.sources, EstimateFetch(outcome.sources, files, arguments.pack)));
  } else {
    SHARD_CHECK(Write(noted, outcome));
    PrintNotes(GridNotes(outcome.pack));
    PrintWarnings(NotFiniteWarnings(outcome.pack));
  }
  NoteTraffic(*source.tree, SizeOfFiles(model.checkpoint()));
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(outcome))
                             : WriteReport(ReportText(outcome), ReportLine(outcome)));
  return kExitDone;
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  if (IsAddress(arguments.source.source)) return QuantizeModel(arguments);
  const fs::path source = arguments.source.source;
  SHARD_TRY(const bool distribution, moepack::IsThere(source / manifest::kManifestFile));
  if (distribution) return QuantizeDistribution(arguments);
  if (source.filename() != manifest::kManifestFile) return QuantizeModel(arguments);
  return Error{Code::kInvalidArgument, Cat(source.string(), " is a manifest"),
               "quantize takes a checkpoint, a GGUF or the directory of a distribution"};
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddSource(app, arguments->source,
            " Or the directory of a distribution with GGUF bundles, to requantize it.");
  StartSection(app, "Output");
  app.add_option(
         "-o,--output", arguments->out,
         Cat("The GGUF file to write. With --max-part-size the parts are in the same directory: "
             "model-00001-of-00003.gguf. If SRC is a distribution: DIR, the directory of the "
             "new one. ",
             kOutputDirectoryHelp))
      ->type_name("OUT")
      ->required();
  AddQuantizeOptions(app, arguments->quantize);
  StartSection(app, "Output");
  app.add_option("--model-id", arguments->quantize.options.model_id,
                 "Name of a converted model, such as Qwen/Qwen3-30B-A3B, for general.name. "
                 "Default: the model card's, the one in config.json, or the family's.")
      ->type_name("ID")
      ->check(AsUtf8());
  app.add_option("--max-part-size", arguments->max_part_size,
                 "Write a split set of files of at most this size: 5G, 512MiB. A tensor is never "
                 "cut.")
      ->type_name("SIZE")
      ->transform(AsBytes(kLeastPartSize));
  AddChunkMap(app, arguments->pack.cell_bytes);
  AddForce(app, arguments->force);
  AddMemory(app, arguments->pack.memory);
  app.get_option("--memory")
      ->description(
          "Upper bound for buffers, and for the activations and moments of a calibration: 64M, "
          "1GiB. Default: 64MiB; with --calibrate 4GiB.");
  AddJobs(app, arguments->pack.jobs);
  AddDryRun(app, arguments->dry_run);
  AddTensors(app, arguments->tensors);
  AddJson(app, arguments->json);
  AddTask(app, arguments->task);
  AddCalibrate(app, "", arguments->calibrate);
  AddCalibratedStore(app, arguments->calibrate);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace quantize_command

constinit const Command kQuantize = {
    "quantize",
    "Writes a checkpoint or GGUF as one GGUF, or a distribution again, with other types if wanted",
    "Converts a Hugging Face checkpoint to GGUF and quantizes on the way, in one pass: --recipe "
    "BF16 is the plain converter. The bytes are those of llama.cpp's converter and llama-quantize, "
    "but values are rounded once, and int4 keeps its numbers where a type has them "
    "(docs/conversion.md). Types are chosen by a recipe or profile, and overridden by part or by "
    "tensor name. A distribution with GGUF bundles becomes a new distribution, in which every part "
    "has the chosen types.",
    {"moepack quantize fixtures/tiny-moe --recipe Q4_K_M -o tiny-q4_k_m.gguf",
     "moepack quantize fixtures/tiny-moe --recipe Q4_K_M --tensor-type ffn_down_exps=q6_K "
     "--dry-run -o tiny.gguf"},
    {"--output", "--recipe", "--imatrix", "--experts-type", "--trunk-type", "--calibrate",
     "--max-part-size", "--memory", "--dry-run", "--force"},
    quantize_command::Bind};

}  // namespace moepack::cli
