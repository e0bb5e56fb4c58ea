#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/verify/requantize.h"
#include "manifest/write/output_path.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/commands/quantize_run.h"
#include "tools/commands/task_run.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/reports/write_report.h"

namespace moepack::cli {
namespace {

Result<manifest::WriteOptions> OptionsOf(const QuantizeRun& run) {
  if (run.max_part_size > 0) {
    return Error{Code::kInvalidArgument, "--max-part-size has no effect on a distribution",
                 "leave it out: the files of a distribution keep their division"};
  }
  if (!run.quantize.options.model_id.empty()) {
    return Error{Code::kInvalidArgument, "--model-id has no effect on a distribution",
                 "leave it out: a distribution keeps the name of its model"};
  }
  const ConvertOptions& convert = run.quantize.options.convert;
  const bool model = !run.source.model.family_file.empty() || !run.source.model.config_file.empty();
  if (model || !convert.pre.empty() || !convert.mtp) {
    return Error{Code::kInvalidArgument,
                 Cat(model ? "--family and --config" : "--pre and --no-mtp",
                     " have no effect on a distribution"),
                 "leave them out: a distribution was converted when it was built"};
  }
  manifest::WriteOptions options;
  SHARD_TRY(options.gguf, ReadQuantizeOptions(run.quantize));
  options.pack = run.pack;
  options.force = run.force;
  options.list_types = run.tensors;
  options.notes = PrintNotes;
  options.command = RecordQuantizeOptions("--recipe", run.quantize);
  options.command.insert(options.command.begin(), "quantize");
  if (run.pack.cell_bytes > 0) options.command.push_back("--chunk-map");
  SHARD_CHECK(CheckRecorded(options.command));
  return options;
}

Result<int> RunDry(const QuantizeRun& run, const manifest::WritePlan& files) {
  if (!run.out.empty()) SHARD_CHECK(manifest::CheckReplaceable(run.out, true));
  PrintNotes(files.notes);
  const DryRun dry{run.out, files.plan, files};
  SHARD_CHECK(run.json ? WriteJsonResult(DryRunJson(dry))
                       : WriteReport(DryRunText(dry), DryRunLine(dry)));
  return kExitDone;
}

Error CannotCalibrate(const QuantizeRun& run) {
  return {Code::kUnsupported,
          Cat(Shown(run.source.source), ": ",
              run.calibrate.runs() ? "--calibrate" : "--calibrated-store",
              ": expected a checkpoint or a GGUF, found a distribution"),
          "`moepack build SRC --calibrate` makes one from the checkpoint"};
}

Result<int> RunTaskOf(const QuantizeRun& run, manifest::Draft draft, const TaskNumber& number) {
  TaskRun task{run.out, {}, run.json};
  task.task.number = number;
  task.task.pack = run.pack;
  task.task.force = run.force;
  task.task.dry_run = run.dry_run;
  return RunTask(std::move(draft), task);
}

}  // namespace

Result<int> QuantizeDistribution(const QuantizeRun& run) {
  SHARD_CHECK(CheckCalibrate(run.calibrate));
  if (run.calibrate.wanted()) return CannotCalibrate(run);
  SHARD_TRY(const std::optional<TaskNumber> task, ChooseTask(run.task));
  SHARD_TRY(manifest::WriteOptions options, OptionsOf(run));
  std::vector<std::string> inputs;
  AddNamedFiles(run.quantize, inputs);
  SHARD_CHECK(CheckHoldsNoInput(run.out, inputs));
  if (task && run.tensors) return NotInTask("--tensors", "without --task they are listed");
  if (task || run.dry_run) {
    SHARD_TRY(manifest::Draft draft,
              manifest::DraftRequantized(run.source.source, run.out, options));
    return task ? RunTaskOf(run, std::move(draft), *task) : RunDry(run, draft.files);
  }
  Progress progress("quantizing");
  options.pack.progress = progress.Shows();
  SHARD_TRY(const manifest::WriteReport report,
            manifest::RequantizeDistribution(run.source.source, run.out, options));
  PrintNotes(GridNotes(report.pack));
  PrintWarnings(NotFiniteWarnings(report.pack));
  PrintWarnings(report.warnings);
  const WriteOutcome outcome{run.out, report, progress.seconds()};
  SHARD_CHECK(run.json ? WriteJsonResult(WrittenJson(outcome))
                       : WriteReport(WrittenText(outcome), WrittenLine(outcome)));
  return kExitDone;
}

}  // namespace moepack::cli
