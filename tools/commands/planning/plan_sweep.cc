#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/pack/model_damage.h"
#include "libshard/plan/partition.h"
#include "tools/base/command_text.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/commands/planning/plan_machines.h"
#include "tools/options/given_once.h"
#include "tools/options/statistics_options.h"
#include "tools/reports/planning/fit_report.h"

namespace moepack::cli {
namespace {

const std::vector<uint32_t> kSweptGroups = {1, 2, 3, 4, 6, 8};
// "" means the source's own types.
const std::vector<std::string> kSweptRecipes = {"",       "Q8_0",   "Q6_K", "Q5_K_M",
                                                "Q4_K_M", "Q3_K_M", "Q2_K"};

// What held-out sessions find on their node; no value if no plan can be made. REQUIRES: the options
// name a partition.
ExpectedCapture CaptureOf(const MoeModel& model, const PlanOptions& options) {
  return [&model, options](uint32_t groups, uint32_t eligible) -> std::optional<double> {
    PlanOptions one = options;
    one.groups = groups;
    one.eligible = eligible;
    const Result<Plan> plan = MakePlan(model, one);
    if (!plan || !plan->expectation) return std::nullopt;
    return plan->expectation->overall.mean;
  };
}

// With one partition for the whole table. The most groups need the most sessions, so they decide.
MakeCapture CaptureWith(const MoeModel& model, const PlanOptions& options) {
  return [&model, options](uint32_t most_groups) -> Result<ExpectedCapture> {
    PlanOptions chosen = options;
    chosen.groups = most_groups;
    SHARD_CHECK(ChoosePartition(chosen));
    return CaptureOf(model, chosen);
  };
}

// The damage of the recipe's own types; without an importance matrix, like the sizes.
ExpectedDamage DamageOf(const MoeModel& model) {
  return [&model](const std::string& recipe) -> Result<double> {
    QuantizeOptions options;
    options.recipe.recipe = recipe;
    SHARD_TRY(const TypedGguf typed, PrepareGguf(model, options));
    return DamageOfTypes(model, typed, DamageSample{}.rows, 0);
  };
}

// "source" is the column's name for the source's own types.
std::vector<std::string> SweptRecipes(const std::vector<std::string>& named) {
  if (named.empty()) return kSweptRecipes;
  std::vector<std::string> recipes = named;
  for (std::string& recipe : recipes) {
    if (Lower(recipe) == "source") recipe.clear();
  }
  return recipes;
}

Status CheckSweptPlan(const PlanOptions& plan) {
  SHARD_TRY(const PartitionChoice choice, ParsePartition(PartitionOf(plan)));
  const std::string with = choice.partition->takes_file
                               ? Cat("--partition ", choice.partition->name)
                           : plan.uniform ? ""
                                          : "--no-uniform";
  if (!with.empty())
    return Error{Code::kInvalidArgument, Cat("--sweep and ", with, " cannot be used together")};
  return CheckStatisticsOptions(plan);
}

// "6MB" of "6MBx1".
std::string OneMachine(const std::string& node) { return node.substr(0, Lower(node).find('x')); }

struct SweepInput {
  const SourceArguments& source;
  const MachineArguments& machines;
  const PlanOptions& plan;
  bool config_alone = false;
};

// Makes the plan of a row, or shows it, if only a config is there.
std::string PlanCommand(const SweepInput& input, const SweepRow& row) {
  const auto& [source, machines, plan, config_alone] = input;
  CommandLine line("plan");
  line.AddPath(source.shown());
  line.AddPath("--family", source.model.family_file);
  line.AddPath("--config", source.model.config_file);
  if (machines.nodes.empty()) {
    line.Add("--groups", std::to_string(row.groups));
  } else {
    line.Add("--node", Cat(OneMachine(machines.nodes.front()), "x", row.groups));
  }
  line.Add("--recipe", row.recipe);
  if (machines.context > 0) line.Add("--context", std::to_string(machines.context));
  if (machines.sessions != 1) line.Add("--sessions", std::to_string(machines.sessions));
  if (machines.kv_type != MachineArguments().kv_type) line.Add("--kv-type", machines.kv_type);
  if (machines.reserve) line.Add("--reserve", std::to_string(*machines.reserve));
  for (const std::string& file : plan.statistics_files) line.AddPath("--statistics", file);
  line.Add("--partition", plan.partition.value_or(""));
  if (config_alone) line.Add("--dry-run");
  return line.Text();
}

// The plan of the best row, unless nothing fits.
std::string NextStep(const SweepInput& input, const SweepTable& table) {
  const SweepRow& best = table.rows.front();
  if (best.fits) return Cat("\nnext:\n  ", PlanCommand(input, best), "\n");
  return "\nnothing fits: try more --groups, a larger --node, smaller --recipes or a shorter "
         "--context\n";
}

}  // namespace

Result<int> RunSweep(const SourceArguments& source, const MachineArguments& arguments,
                     const PlanOptions& plan, const std::vector<uint32_t>& groups, bool json) {
  SHARD_CHECK(CheckSweptPlan(plan));
  SHARD_CHECK(CheckRecipesGivenOnce("--recipes", arguments.recipes));
  SHARD_TRY(const PlannedModel model, OpenPlanned(source));
  if (arguments.damage) SHARD_CHECK(OpenWeights(model.planned()));  // before anything is laid out
  SHARD_TRY(const PlanOptions with_scores, WithScores(model.planned(), plan));
  SHARD_TRY(const Machines machines, PrepareMachines(model.sized(), arguments));
  SweepOptions options;
  options.groups = groups.empty() ? kSweptGroups : groups;
  options.recipes = SweptRecipes(arguments.recipes);
  options.all_recipes_named = !arguments.recipes.empty();
  if (!machines.budgets.empty()) options.budget = machines.budgets.front();
  options.extras = machines.extras;
  if (with_scores.scores) options.capture = CaptureWith(model.planned(), with_scores);
  if (arguments.damage) options.damage = DamageOf(model.planned());
  SHARD_TRY(const SweepTable table, Sweep(model.sized(), options));
  PrintNotes(table.notes);
  const SweepInput input{source, arguments, plan, model.config_alone};
  SHARD_CHECK(json ? WriteJsonResult(SweepJson(table, options))
                   : WriteReport(SweepText(table, options) + NextStep(input, table),
                                 SweepLine(table, options)));
  return kExitDone;
}

}  // namespace moepack::cli
