#include "tools/commands/task_run.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/tasks/task_record.h"
#include "tools/base/command_text.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/options/quantize_options.h"

namespace moepack::cli {
namespace {

std::string DoneText(const TaskRun& run, const manifest::TaskReport& report, double seconds) {
  const std::string where = Shown(report.directory);
  if (report.was_there) return Cat("nothing to do: ", where, " is there already");
  if (report.outrun) return Cat("another process has written ", where, " meanwhile: it is kept");
  if (run.task.dry_run) return Cat("would write ", ExactBytes(report.bytes), " to ", where);
  return Cat("wrote ", ExactBytes(report.bytes), " to ", where, " in ", FormatElapsed(seconds),
             " (", FormatRate(report.pack.read_bytes, seconds), " read)");
}

std::string TaskText(const TaskRun& run, const manifest::TaskReport& report, double seconds) {
  return Cat(DoneText(run, report, seconds), "\ntask ", report.number.index, " of ",
             report.number.count, " reads ", FormatBytes(report.load.read), " and makes ",
             FormatBytes(report.load.written), "; the largest task has ",
             FixedPoint(report.imbalance), " of the mean work\nwhen all tasks are done:\n  ",
             JoinCommandText(run.out), "\n", run.needs ? CalibrateNeedsText(*run.needs) : "");
}

Json TaskJson(const TaskRun& run, const manifest::TaskReport& report, double seconds) {
  Json document = {
      {"task", report.number.index},
      {"tasks", report.number.count},
      {"output", run.out},
      {"directory", report.directory},
      {"dry_run", run.task.dry_run},
      {"was_there", report.was_there || report.outrun},
      {"bytes", report.bytes},
      {"share", {{"read_bytes", report.load.read}, {"written_bytes", report.load.written}}},
      {"imbalance", report.imbalance},
      {"read_bytes", report.pack.read_bytes},
      {"resumed_bytes", report.pack.resumed_bytes},
      {"seconds", seconds}};
  if (run.needs) document["calibration"] = CalibrateNeedsJson(*run.needs);
  return document;
}

}  // namespace

std::string JoinCommandText(const std::string& out) {
  CommandLine line("join");
  line.AddPath(manifest::TasksDirectory(out));
  line.AddPath("-o", out);
  return line.Text();
}

Result<int> RunTask(manifest::Draft draft, const TaskRun& run) {
  PrintNotes(draft.files.notes);
  PrintWarnings(draft.files.warnings);
  Progress progress("writing");
  manifest::TaskOptions options = run.task;
  options.pack.progress = progress.Shows();
  SHARD_TRY(const manifest::TaskReport report,
            manifest::WriteTask(std::move(draft), run.out, options));
  const double seconds = progress.seconds();
  PrintNotes(GridNotes(report.pack));
  PrintWarnings(NotFiniteWarnings(report.pack));
  PrintWarnings(report.warnings);
  SHARD_CHECK(run.json ? WriteJsonResult(TaskJson(run, report, seconds))
                       : WriteReport(TaskText(run, report, seconds)));
  return kExitDone;
}

Error NotInTask(const char* option, const char* hint) {
  return {Code::kInvalidArgument, Cat(option, " cannot be used in a task: no task has the whole"),
          hint};
}

}  // namespace moepack::cli
