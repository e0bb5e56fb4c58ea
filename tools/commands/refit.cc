#include "runtime-shim/refit/refit.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"
#include "manifest/write/output_path.h"
#include "runtime-shim/model/bos_token.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/refit_arguments.h"
#include "tools/options/runtime_options.h"
#include "tools/options/session_texts.h"
#include "tools/reports/refit_report.h"

namespace moepack::cli {
namespace refit_command {
namespace {

struct Arguments {
  RuntimeArguments runtime;
  RefitArguments refit;
  std::string plan, store;
  bool dry_run = false, json = false;
};

// Everything that is read before anything is computed.
struct Inputs {
  LoadedModel loaded;
  Plan plan;
  std::string version;  // of the source
  std::vector<TokenSession> sessions;
};

Result<Plan> PlanOf(const Arguments& arguments, const MoeModel& model,
                    const runtime::Weights& weights) {
  if (!arguments.plan.empty()) return ReadPlanFile(arguments.plan, model);
  if (weights.plan) return *weights.plan;
  return Error{Code::kInvalidArgument,
               Cat("--plan is required: ", arguments.runtime.source, " is not a distribution"),
               "`moepack plan SRC -o plan.json` makes one"};
}

Result<Inputs> ReadInputs(const Arguments& arguments) {
  Inputs inputs;
  SHARD_TRY(auto executor, OpenExecutor(arguments.runtime));
  SHARD_TRY(inputs.loaded,
            LoadModel(arguments.runtime.source, arguments.runtime, std::move(executor)));
  SHARD_TRY(const moepack::Source source, OpenSource(arguments.runtime.source));
  SHARD_TRY(const MoeModel model, MoeModel::Open(source, arguments.runtime.load.model));
  SHARD_TRY(inputs.plan, PlanOf(arguments, model, *inputs.loaded.weights));
  inputs.version = model.Version("");
  SHARD_TRY(inputs.sessions, ReadSessions(arguments.refit.texts, inputs.loaded.model->vocabulary(),
                                          TokenizeAs(inputs.loaded.weights)));
  return inputs;
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckRuntimeOptions(arguments.runtime, ""));
  SHARD_CHECK(runtime::CheckSteps(arguments.refit.options.steps));
  SHARD_TRY(const Inputs inputs, ReadInputs(arguments));
  RefitRecord record;
  runtime::RecordOptions(arguments.refit.options, record);
  record.model = inputs.version;
  record.plan = RefitPlanDigest(inputs.plan);
  record.calibration = CalibrationOf(inputs.sessions);
  SHARD_TRY(RefitStoreWriter store, RefitStoreWriter::Open(arguments.store, record));
  SHARD_TRY(const std::vector<runtime::CalibrationSession> sessions,
            WeighSessions(arguments.refit, inputs.plan, inputs.sessions));
  Progress progress("refitting", ProgressUnit::kTokens);
  runtime::RefitEvents events;
  events.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total); };
  events.refitted = [&](const runtime::LayerOutcome& outcome, bool again) {
    progress.Clear();
    PrintMessage(RefitLine(outcome, again));
  };
  const runtime::RefitInput input = {*inputs.loaded.model, inputs.plan, sessions,
                                     runtime::BosToken(inputs.loaded.weights->metadata)};
  SHARD_CHECK(runtime::RefitModel(input, arguments.refit.options, events, store, arguments.store));
  progress.Clear();
  SHARD_CHECK(arguments.json ? WriteJsonResult(RefitToJson(store.record()))
                             : WriteResult(RefitText(store.record())));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "SRC", kAnySource, arguments->runtime);
  app.add_option("--plan", arguments->plan,
                 "The plan that says what each group holds, as `moepack plan -o` writes it. A "
                 "distribution has its own.")
      ->type_name("FILE");
  AddRefitOptions(app, arguments->refit);
  StartSection(app, Section::kOutput);
  app.add_option("--store", arguments->store,
                 "Where refitted experts go, layer by layer. A run that was interrupted continues "
                 "there.")
      ->type_name("DIR")
      ->required();
  AddExecutor(app, arguments->runtime);
  AddJson(app, arguments->json);
  return [arguments] {
    arguments->refit.options.jobs = arguments->runtime.jobs;
    return Run(*arguments);
  };
}

}  // namespace
}  // namespace refit_command

constinit const Command kRefit = {
    "refit",
    "Refits the experts that each group keeps, on calibration text",
    "Changes kept experts and their router rows, layer by layer, so that a node answers nearly as "
    "the whole model does; the trunk stays as it is. A part of the text is kept back, and a step "
    "stays only if it helps there. docs/refit.md explains the method.",
    {"moepack plan fixtures/tiny-moe --groups 2 -o plan.json --force",
     "moepack refit fixtures/tiny-moe --plan plan.json --text fixtures/texts/calibration.jsonl "
     "--context 256 --store refitted"},
    refit_command::Bind};

}  // namespace moepack::cli
