// The parts of `plan` that deal with machines.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libshard/check/promised_model.h"
#include "libshard/plan/plan.h"
#include "libshard/sizing/cache_shape.h"
#include "libshard/sizing/fit_nodes.h"
#include "libshard/sizing/node_bytes.h"
#include "libshard/sizing/stages.h"
#include "libshard/sizing/sweep.h"
#include "tools/options/machine_options.h"
#include "tools/options/options.h"

namespace moepack::cli {

// A model to plan for, and the one that provides sizes: itself or, if only names of tensors exist,
// what its config promises.
struct PlannedModel {
  std::optional<MoeModel> model;
  std::optional<MoeModel> promised;  // provides the sizes, if present
  bool config_alone = false;         // `promised` is the model; no plan for it can be written
  const MoeModel& planned() const { return model ? *model : *promised; }
  const MoeModel& sized() const { return promised ? *promised : *model; }
};
// Opens a checkpoint, an index or a config alone; prints warnings and where sizes come from.
Result<PlannedModel> OpenPlanned(const SourceArguments& arguments);

struct Machines {
  std::vector<uint64_t> budgets;  // may be empty
  CacheUse use;
  NodeExtras extras;
  std::map<uint32_t, uint64_t> cache_by_layer;
};
// kUnsupported if the size of the cache is unknown and there are budgets; without budgets that is
// only a warning.
Result<Machines> PrepareMachines(const MoeModel& model, const MachineArguments& arguments);

// A plan, and what its nodes need.
struct MachinePlan {
  Plan plan;
  std::vector<NodeFit> nodes;     // of --node and --context
  std::vector<StageNeed> stages;  // of --stages
  std::optional<CacheUse> use;
};
// The plan of the options, for machines if any are named. `sizer` may be null if neither machines
// nor stages are requested.
Result<MachinePlan> MakeMachinePlan(const PlannedModel& model, const NodeSizer* sizer,
                                    const MachineArguments& arguments, const PlanOptions& options);

// --sweep over `groups`, or the usual numbers if there are none. With statistics, captures are
// those of the options' partition.
Result<int> RunSweep(const SourceArguments& source, const MachineArguments& arguments,
                     const PlanOptions& plan, const std::vector<uint32_t>& groups, bool json);

}  // namespace moepack::cli
