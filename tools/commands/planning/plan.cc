#include "libshard/plan/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/slice.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/commands/planning/plan_machines.h"
#include "tools/options/budget_options.h"
#include "tools/options/given_once.h"
#include "tools/options/machine_options.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/statistics_options.h"
#include "tools/reports/node_report.h"
#include "tools/reports/planning/budget_report.h"
#include "tools/reports/planning/expectation_report.h"
#include "tools/reports/planning/fit_report.h"
#include "tools/reports/planning/plan_comparison.h"

namespace moepack::cli {
namespace plan_command {
namespace {

constexpr const char* kStandardOutput = "-";
constexpr uint64_t kMaxPlanFile = 256u << 20;

struct Arguments {
  SourceArguments source;
  PlanOptions plan;
  std::vector<uint32_t> groups;  // several are compared
  MachineArguments machines;
  BudgetArguments budget;
  std::string out = "plan.json";
  bool out_given = false;
  bool force = false, dry_run = false, json = false;
};

// Lays out what build would write; no value for a checkpoint without sizes if none are requested.
Result<std::optional<NodeSizer>> MakeSizer(const PlannedModel& model, const Arguments& arguments) {
  SHARD_TRY(const auto types, TypesOf(arguments.machines));
  const bool sizeless = model.sized().checkpoint().names_only();
  if (sizeless && !types && !arguments.machines.wanted()) return std::optional<NodeSizer>();
  SHARD_TRY(NodeSizer sizer, NodeSizer::Make(model.sized(), types));
  PrintNotes(sizer.notes());
  return std::optional(std::move(sizer));
}

Result<std::optional<PartBytes>> Sizes(const std::optional<NodeSizer>& sizer, const Plan& plan) {
  if (!sizer) return std::optional<PartBytes>();
  SHARD_TRY(const auto files, sizer->BundleFiles(plan));
  return std::optional(BytesOfFiles(files, plan));
}

std::vector<std::string> InputsOf(const Arguments& arguments) {
  std::vector<std::string> inputs;
  AddNamedFiles(arguments.source.model, inputs);
  AddNamedFiles(arguments.plan, inputs);
  AddNamedFiles(arguments.machines.quantize, inputs);
  AddModelFiles(arguments.source.source, inputs);
  return inputs;
}

Status CheckOutput(const Arguments& arguments) {
  if (arguments.out != kStandardOutput)
    return CheckOutputFile(arguments.out, InputsOf(arguments),
                           arguments.force || arguments.dry_run);
  if (!arguments.json) return Ok();
  return Error{Code::kInvalidArgument, "-o - and --json cannot be used together",
               "standard output can carry one document: drop --json to get the plan itself"};
}

bool IsPlan(const std::string& path) {
  const auto text = ReadTextFile(path, kMaxPlanFile);
  return text.has_value() && text->substr(0, 64).find("\"moepack-plan\"") != std::string::npos;
}

// Any file in the checkpoint's directory that is not a plan is an input.
Status CheckNotInput(const Arguments& arguments, const fs::path& root) {
  const fs::path out = arguments.out;
  const fs::path folder = out.has_parent_path() ? out.parent_path() : ".";
  const Result<bool> there = IsThere(out);
  // A link to nothing is not one.
  if (!there && there.error().code != Code::kNotFound) return there.error();
  if (!there || !*there) return Ok();
  SHARD_TRY(const bool beside_inputs, IsSameFile(folder, root));
  return beside_inputs && !IsPlan(arguments.out) ? OutputIsInput(arguments.out) : Ok();
}

struct Outcome {
  const Arguments& arguments;
  const MoeModel& model;
  const MachinePlan& made;
  const TypeBudget* types;  // null without --budget
  const PartBytes* bytes;
  const std::vector<std::string>& warnings;
  uint64_t document_bytes;
  bool config_alone = false;
};

std::string PlanLine(const Outcome& outcome) {
  const Plan& plan = outcome.made.plan;
  const OverlayPlan* const overlay = plan.current_overlay();
  return Cat(Shown(outcome.model.family().name), ": ", Plural(plan.groups.size(), "group"), ", ",
             plan.scheme, plan.uniform ? ", uniform" : "",
             overlay == nullptr ? "" : Cat(", overlay ", Shown(overlay->version)));
}

std::string WrittenPlanText(const Outcome& outcome) {
  if (outcome.config_alone) return "no plan file: it needs the checkpoint, not its config alone";
  return Cat(outcome.arguments.dry_run ? "would write " : "wrote ", Shown(outcome.arguments.out),
             " (", FormatCount(outcome.document_bytes), " bytes)");
}

std::string Report(const Outcome& outcome) {
  const Plan& plan = outcome.made.plan;
  std::string text = Cat(PlanLine(outcome), "\n", NodeTable(plan, outcome.bytes));
  if (outcome.types != nullptr)
    text += "\n" + BudgetText(*outcome.types, *outcome.arguments.budget.bytes);
  if (plan.expectation) text += ExpectationText(*plan.expectation);
  if (!outcome.made.nodes.empty()) text += "\n" + FitText(outcome.made.nodes, *outcome.made.use);
  if (!outcome.made.stages.empty()) text += "\n" + StagesText(outcome.made.stages);
  const uint64_t lost = CountIds(OnNoNode(plan));
  if (lost > 0) text += Cat("on no node: ", Plural(lost, "expert"), " (all layers)\n");
  if (outcome.arguments.out != kStandardOutput) text += WrittenPlanText(outcome) + "\n";
  return text;
}

Json ReportJson(const Outcome& outcome) {
  const Plan& plan = outcome.made.plan;
  const OverlayPlan* overlay = plan.current_overlay();
  Json document = {{"source", outcome.arguments.source.shown()},
                   {"family", outcome.model.family().name},
                   {"scheme", plan.scheme},
                   {"uniform", plan.uniform},
                   {"overlay_version", overlay == nullptr ? "" : overlay->version},
                   {"nodes", NodesToJson(plan, outcome.bytes)},
                   {"remainder_experts", CountIds(plan.remainder)},
                   {"warnings", outcome.warnings}};
  document["expectation"] = plan.expectation ? ExpectationToJson(*plan.expectation) : Json(nullptr);
  if (outcome.types != nullptr)
    document["types"] = BudgetJson(*outcome.types, *outcome.arguments.budget.bytes);
  if (!outcome.made.nodes.empty())
    document["memory"] = FitJson(outcome.made.nodes, *outcome.made.use);
  if (!outcome.made.stages.empty()) document["stages"] = StagesJson(outcome.made.stages);
  document["output"] = {{"file", outcome.arguments.out},
                        {"bytes", outcome.document_bytes},
                        {"written", !outcome.arguments.dry_run}};
  return document;
}

// Compares several numbers of groups; nothing is written.
Result<int> Compare(const Arguments& arguments) {
  SHARD_CHECK(CheckPlanOptions(arguments.plan));
  if (arguments.machines.wanted() || arguments.budget.bytes)
    return Error{Code::kInvalidArgument,
                 "several numbers of groups and options about machines or --budget cannot be used "
                 "together",
                 "--sweep compares what fits a node"};
  if (arguments.out_given)
    return Error{Code::kInvalidArgument, "-o and several numbers of groups cannot be used together",
                 "compare first, then write the plan of one number"};
  SHARD_TRY(const PlannedModel opened, OpenPlanned(arguments.source));
  const MoeModel& model = opened.planned();
  NoteTraffic(*model.checkpoint().tree(), SizeOfFiles(model.checkpoint()));
  SHARD_TRY(const auto sizer, MakeSizer(opened, arguments));
  SHARD_TRY(PlanOptions options, WithScores(model, arguments.plan));
  // One partition for all numbers. The largest needs the most sessions, so it decides.
  options.groups = *std::max_element(arguments.groups.begin(), arguments.groups.end());
  SHARD_CHECK(ChoosePartition(options));
  std::vector<ComparedPlan> plans;
  for (const uint32_t groups : arguments.groups) {
    options.groups = groups;
    SHARD_TRY(Plan plan, MakePlan(model, options));
    SHARD_TRY(auto bytes, Sizes(sizer, plan));
    std::vector<std::string> warnings;
    for (const std::string& warning : PlanWarnings(model, plan, &options))
      warnings.push_back(Cat(Plural(groups, "group"), ": ", warning));
    PrintWarnings(warnings);
    plans.push_back({std::move(plan), std::move(bytes), std::move(warnings)});
  }
  SHARD_CHECK(arguments.json ? WriteJsonResult({{"plans", ComparisonJson(plans)}})
                             : WriteReport(ComparisonTable(plans), ComparisonLine(plans)));
  return kExitDone;
}

// A plan is bound to the weights of a checkpoint, about which a config alone says nothing.
Status CheckWritable(const PlannedModel& model, const Arguments& arguments) {
  if (!model.config_alone || arguments.dry_run) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(arguments.source.shown(), " is only a config; a plan file needs the checkpoint"),
               "--dry-run prints what the plan would be"};
}

Result<int> Write(const Outcome& outcome, const std::string& document) {
  const Arguments& arguments = outcome.arguments;
  if (arguments.out == kStandardOutput) {
    std::string report = Report(outcome);
    report.pop_back();
    PrintMessage(report);
    SHARD_CHECK(WriteJsonText(arguments.dry_run ? "" : document));
    return kExitDone;
  }
  SHARD_CHECK(CheckInterrupt());
  if (!arguments.dry_run) SHARD_CHECK(WriteTextFile(arguments.out, document, arguments.force));
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(outcome))
                             : WriteReport(Report(outcome),
                                           Cat(WrittenPlanText(outcome), "; ", PlanLine(outcome))));
  return kExitDone;
}

struct Planned {
  MachinePlan made;
  std::optional<TypeBudget> types;
  std::optional<NodeSizer> sizer;
};

// Machines are filled by sizes. A budget chooses types, which determine sizes, once it is known who
// holds what.
Result<Planned> MakePlanned(const PlannedModel& opened, const PlanOptions& options,
                            Arguments& arguments) {
  Planned out;
  if (!arguments.budget.bytes) {
    SHARD_TRY(out.sizer, MakeSizer(opened, arguments));
  }
  SHARD_TRY(out.made, MakeMachinePlan(opened, out.sizer ? &*out.sizer : nullptr, arguments.machines,
                                      options));
  if (!arguments.budget.bytes) return out;
  SHARD_TRY(out.types, PinTypes(opened.planned(), arguments.budget, arguments.machines.quantize,
                                out.made.plan));
  SHARD_TRY(out.sizer, MakeSizer(opened, arguments));
  return out;
}

// Machines are filled to what they have room for, whatever the options of a plan by number are.
std::vector<std::string> WarningsOf(const MoeModel& model, const Plan& plan,
                                    const PlanOptions& options, const Arguments& arguments) {
  return PlanWarnings(model, plan, arguments.machines.fills_nodes() ? nullptr : &options);
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckGivenOnce("--groups", arguments.groups));
  SHARD_CHECK(CheckMachineOptions(arguments.machines, arguments.plan.groups));
  if (arguments.machines.sweep) {
    return RunSweep(arguments.source, arguments.machines, arguments.plan, arguments.groups,
                    arguments.json);
  }
  if (arguments.groups.size() > 1) return Compare(arguments);
  if (arguments.plan.groups == 0 && arguments.machines.stages == 0) {
    SHARD_TRY(const auto nodes, ParseNodes(arguments.machines.nodes));
    arguments.plan.groups = static_cast<uint32_t>(nodes.size());
  }
  SHARD_CHECK(CheckPlanOptions(arguments.plan));
  SHARD_CHECK(CheckOutput(arguments));
  SHARD_TRY(const PlannedModel opened, OpenPlanned(arguments.source));
  SHARD_CHECK(CheckWritable(opened, arguments));
  const MoeModel& model = opened.planned();
  NoteTraffic(*model.checkpoint().tree(), SizeOfFiles(model.checkpoint()));
  const auto root = model.checkpoint().tree()->LocalPath("");
  SHARD_CHECK(CheckNotInput(arguments, root.value_or("")));
  SHARD_TRY(PlanOptions options, WithScores(model, arguments.plan));
  SHARD_CHECK(ChoosePartition(options));
  SHARD_TRY(const Planned planned, MakePlanned(opened, options, arguments));
  const MachinePlan& made = planned.made;
  SHARD_TRY(const auto bytes, Sizes(planned.sizer, made.plan));
  const std::vector<std::string> warnings = WarningsOf(model, made.plan, options, arguments);
  PrintWarnings(warnings);

  SHARD_TRY(const std::string document, PlanText(model, made.plan));
  return Write({arguments, model, made, planned.types ? &*planned.types : nullptr,
                bytes ? &*bytes : nullptr, warnings, document.size(), opened.config_alone},
               document);
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddSource(app, arguments->source);
  AddPlanOptions(app, arguments->plan, arguments->groups);
  AddMachineOptions(app, arguments->machines);
  AddBudgetOptions(app, arguments->budget);
  StartSection(app, "Output");
  CLI::Option* out =
      app.add_option(
             "-o,--output", arguments->out,
             "Write the plan here. Default: plan.json. With \"-\" it goes to standard output "
             "and the report to standard error.")
          ->type_name("FILE")
          ->excludes(app.get_option("--sweep"));
  AddForce(app, arguments->force);
  app.get_option("--force")->excludes(app.get_option("--sweep"));
  AddDryRun(app, arguments->dry_run);
  AddJson(app, arguments->json);
  return [arguments, out] {
    arguments->out_given = out->count() > 0;
    return Run(*arguments);
  };
}

}  // namespace
}  // namespace plan_command

constinit const Command kPlan = {
    "plan",
    "Decides which experts each node holds and writes plan.json",
    "Every expert belongs to one group; an overlay replicates some of them on every node. With "
    "--statistics a partition decides from what the model's routers choose (session unless "
    "--partition names one), groups may share experts, and the report tells what new sessions will "
    "find on their node. The plan is plain "
    "JSON: build --plan and shard-experts --plan take it as it is or edited. Nothing is read but "
    "headers; the routers too with --statistics, to see that both are of one model, and some rows "
    "of every matrix with --budget.",
    {"moepack plan fixtures/tiny-moe --groups 3 -o plan.json",
     "moepack plan fixtures/tiny-moe --groups 4 --overlay-file fixtures/tiny-overlay.json -o -"},
    {"--groups", "--node", "--sweep", "--statistics", "--partition", "--overlay-file", "--recipe",
     "--context", "--output", "--json"},
    plan_command::Bind};

}  // namespace moepack::cli
