#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/commands/write_command.h"
#include "tools/options/source.h"
#include "tools/reports/write_report.h"

namespace moepack::cli {
namespace shard_experts_command {
namespace {

Result<int> Run(const WriteArguments& arguments) {
  StopBetweenPieces();
  SHARD_TRY(WriteJob job, MakeWriteJob("shard-experts", arguments, {}));
  if (job.task) return RunWriteTask(job);
  if (job.dry_run) return RunDryRun(job);
  SHARD_TRY(const TimedWrite written, WriteWithProgress(job));
  NoteTraffic(*job.source.tree, job.source_bytes);
  const WriteOutcome outcome{job.out, written.report, written.seconds};
  SHARD_CHECK(job.json ? WriteJsonResult(WrittenJson(outcome))
                       : WriteReport(WrittenText(outcome), WrittenLine(outcome)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<WriteArguments>();
  AddSource(app, arguments->source);
  AddPlanOrFile(app, *arguments);
  AddWriteOptions(app, *arguments);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace shard_experts_command

constinit const Command kShardExperts = {
    "shard-experts",
    "Writes trunk, expert groups, overlay and distribution.json",
    "Every byte of the source is read once, hashed on the way, and lands in one trunk, one bundle "
    "per group and one overlay. Sources are never modified. Memory is bounded by --memory, not by "
    "the model.",
    {"moepack shard-experts fixtures/tiny-moe --plan plan.json --only trunk,group:0 -o part-0",
     "moepack shard-experts fixtures/tiny-moe --plan plan.json --only assets,group:1 -o part-1"},
    {"--output", "--groups", "--plan", "--overlay-file", "--statistics", "--format", "--recipe",
     "--only", "--dry-run", "--force"},
    shard_experts_command::Bind};

}  // namespace moepack::cli
