#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/commands/write_command.h"
#include "tools/options/source.h"
#include "tools/options/statistics_options.h"
#include "tools/reports/write_report.h"

namespace moepack::cli {
namespace shard_experts_command {
namespace {

struct Arguments : WriteArguments {
  std::string plan_file;
};

Result<Plan> FindPlan(const MoeModel& model, const Arguments& arguments) {
  if (!arguments.plan_file.empty()) return ReadPlanFile(arguments.plan_file, model);
  return PlanFromOptions(model, arguments.plan);
}

std::vector<std::string> RecordCommand(const Arguments& arguments) {
  std::vector<std::string> words = {"shard-experts"};
  const auto append = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  append(arguments.plan_file.empty() ? RecordPlanOptions(arguments.plan)
                                     : std::vector<std::string>{"--plan"});
  append(RecordWriteOptions(arguments));
  return words;
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  if (arguments.plan_file.empty()) SHARD_CHECK(CheckPlanOptions(arguments.plan));
  SHARD_TRY(const moepack::Source source,
            OpenSource(arguments.source.source, arguments.source.remote));
  arguments.write.side_files = SideFiles::Note(source.tree, arguments.source.model.config_file);
  SHARD_TRY(MoeModel model, OpenModel(source, arguments.source));
  const uint64_t source_bytes = SizeOfFiles(model.checkpoint());
  SHARD_TRY(const Plan plan, FindPlan(model, arguments));
  SHARD_CHECK(ChooseParts(plan, arguments));
  SHARD_CHECK(ChooseContainer(model, plan, arguments));
  PrintWarnings(PlanWarnings(model, plan));
  arguments.write.command = RecordCommand(arguments);
  SHARD_CHECK(CheckRecorded(arguments.write.command));
  if (arguments.dry_run) return RunDryRun(model, plan, arguments);

  SHARD_TRY(const TimedWrite written, WriteWithProgress(std::move(model), plan, arguments));
  NoteTraffic(*source.tree, source_bytes);
  const WriteOutcome outcome{arguments.out, written.report, written.seconds};
  SHARD_CHECK(arguments.json ? WriteJsonResult(WrittenJson(outcome))
                             : WriteResult(WrittenText(outcome)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddSource(app, arguments->source);
  StartSection(app, Section::kSplit);
  CLI::Option* plan = app.add_option("--plan", arguments->plan_file,
                                     "Use this plan (from `moepack plan`) instead of --groups, "
                                     "--partition, --overlay-file, --uniform, --statistics and "
                                     "--eligible.")
                          ->type_name("FILE");
  AddPlanOptions(app, arguments->plan);
  for (const char* name :
       {"--groups", "--partition", "--overlay-file", "--uniform", "--statistics", "--eligible"}) {
    plan->excludes(app.get_option(name));
  }
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
