#include <nlohmann/json.hpp>

#include "libshard/base/text.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/commands/plan_machines.h"
#include "tools/reports/fit_report.h"

namespace moepack::cli {
namespace {

const std::vector<uint32_t> kSweptGroups = {1, 2, 3, 4, 6, 8};
// "" is the source's own types.
const std::vector<std::string> kSweptRecipes = {"",       "Q8_0",   "Q6_K", "Q5_K_M",
                                                "Q4_K_M", "Q3_K_M", "Q2_K"};

}  // namespace

Result<int> RunSweep(const SourceArguments& source, const MachineArguments& arguments, bool json,
                     const ExpectedCapture& capture) {
  SHARD_TRY(const PlannedModel model, OpenPlanned(source));
  SHARD_TRY(const Machines machines, PrepareMachines(model.sized(), arguments));
  SweepOptions options;
  options.groups = arguments.group_counts.empty() ? kSweptGroups : arguments.group_counts;
  options.recipes = arguments.recipes.empty() ? kSweptRecipes : arguments.recipes;
  options.all_recipes_named = !arguments.recipes.empty();
  if (!machines.budgets.empty()) options.budget = machines.budgets.front();
  options.extras = machines.extras;
  options.capture = capture;
  SHARD_TRY(const SweepTable table, Sweep(model.sized(), options));
  PrintNotes(table.notes);
  SHARD_CHECK(json ? WriteJsonResult(SweepJson(table, options))
                   : WriteResult(SweepText(table, options)));
  return kExitDone;
}

}  // namespace moepack::cli
