#include "tools/commands/planning/plan_machines.h"

#include <algorithm>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/sizing/cache_shape.h"
#include "libshard/sizing/fit_nodes.h"
#include "manifest/document/file_names.h"
#include "manifest/registry/artifact/reference.h"
#include "tools/base/output.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace {

constexpr const char* kConfigName = "config.json";

void NotePromised(const PromisedModel& promised, const std::string& where) {
  std::vector<std::string> notes = {
      Cat(where, ": sizes are those that the config promises, in ", promised.stored)};
  if (!promised.unfollowed.empty()) {
    notes.push_back(Cat("the config says that weights are quantized (", promised.unfollowed,
                        "); sizes are from before that"));
  }
  for (const std::string& part : promised.missing) {
    notes.push_back(Cat("not in the sizes: ", part,
                        ", whose shapes moepack does not work out from the config"));
  }
  PrintNotes(notes);
}

// What the config of an index promises: the one that the options name, or the one beside it.
Result<PromisedModel> PromisedBeside(const moepack::Source& index, ModelOptions options) {
  if (options.config_file.empty()) return OpenPromised(index, kConfigName, options);
  SHARD_TRY(const moepack::Source config, LocalSource(options.config_file));
  options.config_file.clear();
  return OpenPromised(config, config.file, options);
}

// The most that every node holds in any layer in any case.
uint32_t MostEverywhere(const Plan& plan) {
  size_t most = 0;
  if (plan.overlays.empty()) return 0;
  for (const auto& [layer, ids] : plan.current_overlay()->experts_by_layer)
    most = std::max(most, ids.size());
  return static_cast<uint32_t>(most);
}

Result<Plan> PlanForMachines(const PlannedModel& model, const NodeSizer& sizer,
                             const Machines& machines, const PlanOptions& options) {
  SHARD_TRY(const Plan whole, PlanOverlayAlone(model.planned(), options));
  SHARD_TRY(const std::vector<NodeFit> fits, FitNodes(model.sized(), sizer, machines.budgets,
                                                      machines.extras, MostEverywhere(whole)));
  std::vector<uint32_t> eligible;
  for (const NodeFit& fit : fits) eligible.push_back(fit.need.eligible);
  return PlanForNodes(model.planned(), options, eligible);
}

Status AddStages(const NodeSizer& sizer, const Machines& machines, uint32_t stages,
                 MachinePlan& out) {
  StageInput input{.bytes = sizer.Layers(),
                   .eligible = 0,
                   .cache = machines.cache_by_layer,
                   .buffers = machines.extras.buffers,
                   .budgets = machines.budgets};
  for (size_t group = 0; group < out.plan.groups.size(); ++group) {
    for (const auto& [layer, unused] : out.plan.layers) {
      const size_t count = Eligible(out.plan, group, layer).size();
      input.eligible = std::max(input.eligible, static_cast<uint32_t>(count));
    }
  }
  SHARD_TRY(out.stages, DivideIntoStages(input, stages));
  for (const StageNeed& need : out.stages) out.plan.stages.push_back(need.range);
  return Ok();
}

// Operators have only what was published, and look for what a node of it needs.
Error IsSplit(const std::string& named, const char* what) {
  return {
      Code::kInvalidArgument, Cat(named, ": expected a model, found ", what),
      "plan needs the model that it was made from; for the memory of one of its nodes, "
      "assemble the node, then name its directory: plan NODE --groups 1 --context 4k --dry-run"};
}

Status CheckIsNoDistribution(const SourceArguments& arguments) {
  const auto read = registry::ParseReference(arguments.source);
  const bool published = read && read->kind != registry::Reference::Kind::kFiles &&
                         !IsAddress(arguments.source) && !CheckIsNoReference(arguments.source);
  return published ? Status(IsSplit(arguments.shown(), "a published distribution")) : Ok();
}

Result<MoeModel> OpenUnsplit(const moepack::Source& source, const SourceArguments& arguments) {
  auto model = OpenModel(source, arguments);
  if (model || !source.file.empty()) return model;
  const auto distribution = source.tree->Has(manifest::kManifestFile);
  if (!distribution || !*distribution) return model;
  return IsSplit(arguments.shown(), "a distribution");
}

}  // namespace

Result<PlannedModel> OpenPlanned(const SourceArguments& arguments) {
  SHARD_CHECK(CheckIsNoDistribution(arguments));
  SHARD_TRY(moepack::Source source, OpenSource(arguments.source, arguments.remote));
  PlannedModel out;
  if (const auto index = IndexAlone(source)) {
    PrintNotes(
        {Cat(source.tree->NameOf(*index),
             ": none of the files that it names is there; the plan is made from its names")});
    source.file = *index;
  }
  if (const auto config = ConfigAlone(source)) {
    out.config_alone = true;
    SHARD_TRY(PromisedModel promised, OpenPromised(source, *config, arguments.model));
    NotePromised(promised, source.tree->NameOf(*config));
    out.promised = std::move(promised.model);
    return out;
  }
  SHARD_TRY(out.model, OpenUnsplit(source, arguments));
  if (!out.model->checkpoint().names_only() || !out.model->has_config()) return out;
  auto promised = PromisedBeside(source, arguments.model);
  if (promised) {
    NotePromised(*promised, out.model->config_path().string());
    out.promised = std::move(promised->model);
  } else {
    PrintNotes({Cat("no sizes: ", promised.error().message)});
  }
  return out;
}

Result<Machines> PrepareMachines(const MoeModel& model, const MachineArguments& arguments) {
  Machines out;
  SHARD_TRY(out.budgets, ParseNodes(arguments.nodes));
  SHARD_TRY(out.use, CacheUseOf(arguments));
  out.extras.buffers = arguments.reserve.value_or(ComputeBytes(model, out.use.context));
  if (out.budgets.empty() && arguments.context == 0) return out;
  const auto shape = ReadCacheShape(model);
  if (!shape && !out.budgets.empty()) return shape.error();
  if (!shape) {
    PrintWarnings({Cat(shape.error().message, "; it counts as 0")});
    return out;
  }
  SHARD_TRY(out.cache_by_layer, CacheBytesByLayer(*shape, out.use));
  SHARD_TRY(out.extras.cache, CacheBytes(*shape, out.use));
  return out;
}

Result<MachinePlan> MakeMachinePlan(const PlannedModel& model, const NodeSizer* sizer,
                                    const MachineArguments& arguments, const PlanOptions& options) {
  MachinePlan out;
  if (!arguments.wanted()) {
    SHARD_TRY(out.plan, MakePlan(model.planned(), options));
    return out;
  }
  SHARD_TRY(const Machines machines, PrepareMachines(model.sized(), arguments));
  if (arguments.stages > 0) {
    SHARD_TRY(out.plan, MakePlan(model.planned(), options));
    SHARD_CHECK(AddStages(*sizer, machines, arguments.stages, out));
    return out;
  }
  if (machines.budgets.empty()) {
    SHARD_TRY(out.plan, MakePlan(model.planned(), options));
  } else {
    SHARD_TRY(out.plan, PlanForMachines(model, *sizer, machines, options));
  }
  SHARD_TRY(out.nodes, MeasureNodes(*sizer, out.plan, machines.budgets, machines.extras));
  out.use = machines.use;
  return out;
}

}  // namespace moepack::cli
