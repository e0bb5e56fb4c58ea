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

Result<int> Run(WriteArguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckPlanOrFile(arguments));
  SHARD_TRY(const std::optional<TaskNumber> task, ChooseTask(arguments.task));
  SHARD_TRY(const moepack::Source source,
            OpenSource(arguments.source.source, arguments.source.remote));
  if (!task) SHARD_CHECK(CheckOutput(*source.tree, arguments));
  arguments.write.side_files = SideFiles::Note(source.tree, arguments.source.model.config_file);
  SHARD_TRY(MoeModel model, OpenModel(source, arguments.source));
  const uint64_t source_bytes = SizeOfFiles(model.checkpoint());
  SHARD_TRY(const Plan plan, FindPlan(model, arguments));
  SHARD_CHECK(ChooseParts(plan, arguments));
  SHARD_CHECK(ChooseContainer(model, plan, arguments));
  SHARD_CHECK(ChooseRefit(model, plan, arguments));
  PrintWarnings(PlanWarnings(model, plan, PlannedFrom(arguments)));
  arguments.write.command = RecordCommand("shard-experts", arguments);
  SHARD_CHECK(CheckRecorded(arguments.write.command));
  if (task) return RunWriteTask(std::move(model), plan, *task, arguments);
  if (arguments.dry_run) return RunDryRun(model, plan, arguments);

  SHARD_TRY(const TimedWrite written, WriteWithProgress(std::move(model), plan, arguments));
  NoteTraffic(*source.tree, source_bytes);
  const WriteOutcome outcome{arguments.out, written.report, written.seconds};
  SHARD_CHECK(arguments.json ? WriteJsonResult(WrittenJson(outcome))
                             : WriteResult(WrittenText(outcome)));
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
    shard_experts_command::Bind};

}  // namespace moepack::cli
