#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/write/output_path.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/commands/refit_run.h"
#include "tools/commands/write_command.h"
#include "tools/options/options.h"
#include "tools/reports/refit_report.h"
#include "tools/reports/write_report.h"

namespace moepack::cli {
namespace refit_command {
namespace {

struct Arguments {
  RefitRun run;
  std::string plan, out;
  bool force = false, dry_run = false, json = false;
};

Status CheckOutputs(Arguments& arguments) {
  const std::string& source = arguments.run.runtime.source;
  if (arguments.run.store.empty()) {
    if (arguments.out.empty())
      return Error{Code::kInvalidArgument, "-o or --store is required",
                   "-o writes a distribution, --store only what was refitted"};
    arguments.run.store = arguments.out + ".refit";
  }
  SHARD_CHECK(manifest::CheckOutputApart(arguments.run.store, source, {}));
  if (arguments.out.empty()) return Ok();
  SHARD_CHECK(manifest::CheckOutputApart(arguments.out, source, {}));
  return arguments.dry_run ? manifest::CheckDryOutput(arguments.out)
                           : manifest::CheckReplaceable(arguments.out, arguments.force);
}

// Writes source, plan and store as a distribution, as shard-experts does.
Status WriteDistribution(const Arguments& arguments) {
  WriteArguments write;
  write.source.source = arguments.run.runtime.source;
  write.source.model = arguments.run.runtime.load.model;
  write.plan_file = arguments.plan;
  write.out = arguments.out;
  write.refit_store = arguments.run.store;
  write.write.force = arguments.force;
  write.write.pack.jobs = arguments.run.runtime.jobs;
  SHARD_TRY(const moepack::Source source, OpenSource(write.source.source));
  write.write.side_files = SideFiles::Note(source.tree, write.source.model.config_file);
  SHARD_TRY(MoeModel model, OpenModel(source, write.source));
  SHARD_TRY(const Plan plan, FindPlan(model, write));
  SHARD_CHECK(ChooseContainer(model, plan, write));
  SHARD_CHECK(ChooseRefit(model, plan, write));
  write.write.command = RecordCommand("shard-experts", write);
  SHARD_CHECK(CheckRecorded(write.write.command));
  SHARD_TRY(const TimedWrite written, WriteWithProgress(std::move(model), plan, write));
  PrintMessage(WrittenText({write.out, written.report, written.seconds}));
  return Ok();
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckRuntimeOptions(arguments.run.runtime, ""));
  SHARD_CHECK(runtime::CheckSteps(arguments.run.refit.options.steps));
  SHARD_CHECK(CheckOutputs(arguments));
  arguments.run.refit.options.jobs = arguments.run.runtime.jobs;
  SHARD_TRY(const RefitSource source, OpenRefitSource(arguments.run.runtime, arguments.plan));
  if (arguments.plan.empty() && !arguments.out.empty())
    return Error{Code::kUnsupported,
                 Cat("-o: expected the source that ", arguments.run.runtime.source,
                     " was made from, found a distribution"),
                 "--store writes what was refitted; shard-experts --refit-store makes a "
                 "distribution of it"};
  if (arguments.dry_run) {
    SHARD_TRY(const std::string text, DescribeRefit(arguments.run, source));
    SHARD_CHECK(WriteResult(text));
    return kExitDone;
  }
  SHARD_TRY(const RefitRecord record, RunRefit(arguments.run, source));
  if (!arguments.out.empty()) SHARD_CHECK(WriteDistribution(arguments));
  SHARD_CHECK(arguments.json ? WriteJsonResult(RefitToJson(record))
                             : WriteResult(RefitText(record)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "SRC", kAnySource, arguments->run.runtime);
  app.add_option("--plan", arguments->plan,
                 "The plan that says what each group holds, as `moepack plan -o` writes it. A "
                 "distribution has its own.")
      ->type_name("FILE");
  AddRefitOptions(app, arguments->run.refit);
  StartSection(app, Section::kOutput);
  app.add_option("-o,--output", arguments->out,
                 "Write a distribution here whose groups hold the refitted experts.")
      ->type_name("DIR");
  app.add_option("--store", arguments->run.store,
                 "Where refitted experts go, layer by layer. A run that was interrupted continues "
                 "there. Default: the output's name with .refit.")
      ->type_name("DIR");
  AddForce(app, arguments->force);
  AddExecutor(app, arguments->run.runtime);
  AddDryRun(app, arguments->dry_run);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace refit_command

constinit const Command kRefit = {
    "refit",
    "Refits the experts that each group keeps, on calibration text",
    "Changes kept experts and their router rows, layer by layer, so that a node answers nearly as "
    "the whole model does; the trunk stays as it is. A part of the text is kept back, and a step "
    "stays only if it helps there. docs/refit.md explains the method.",
    {"moepack refit fixtures/tiny-moe --plan plan.json --text fixtures/texts/calibration.jsonl "
     "--steps ridge -o refitted --force",
     "moepack refit fixtures/tiny-moe --plan plan.json --text fixtures/texts/calibration.jsonl "
     "--dry-run -o refitted --force"},
    refit_command::Bind};

}  // namespace moepack::cli
