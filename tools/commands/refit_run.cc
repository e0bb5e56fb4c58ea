#include "tools/commands/refit_run.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "libshard/refit/refit_store.h"
#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/executor/observed_executor.h"
#include "runtime-shim/model/bos_token.h"
#include "runtime-shim/refit/estimate.h"
#include "runtime-shim/refit/refit.h"
#include "runtime-shim/refit/twins.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/commands/held_out.h"
#include "tools/reports/runs/profile_report.h"
#include "tools/reports/runs/refit_report.h"

namespace moepack::cli {
namespace {

Result<std::vector<TokenSession>> ReadCalibration(const RefitRun& run) {
  return ReadSessions(run.arguments.texts, run.loaded.model->vocabulary(),
                      TokenizeAs(run.loaded.weights));
}

runtime::RefitInput InputOf(const RefitRun& run, const std::vector<TokenSession>& texts) {
  return {*run.loaded.model,
          run.plan,
          texts,
          runtime::BosToken(run.loaded.weights->metadata),
          run.moments,
          WeighSessions(run.arguments.options, run.plan, texts),
          {}};
}

// What a refit of each group costs, by its experts.
std::vector<uint64_t> CostsOf(const Plan& plan) {
  std::vector<uint64_t> costs(plan.groups.size());
  for (size_t group = 0; group < costs.size(); ++group) {
    for (const auto& [layer, count] : plan.layers)
      costs[group] += Eligible(plan, group, layer).size();
  }
  return costs;
}

// The part of the refit that the run does; no value: all of it.
std::optional<RefitPart> PartOf(const RefitRun& run, const runtime::Calibration& text) {
  if (!run.share.is_part()) return std::nullopt;
  RefitPart part;
  part.twins = runtime::FirstTwins(run.plan, text);
  part.groups = run.share.only;
  if (const auto& task = run.share.task)
    part.groups = GroupsOfTask(part.twins, CostsOf(run.plan), task->index, task->count);
  part.instructions = runtime::DotInstructions();
  part.moepack = ToolVersion();
  return part;
}

Status CheckHeldOutOf(const RefitRun& run, const std::vector<TokenSession>& calibration) {
  const RefitArguments& arguments = run.arguments;
  return CheckHeldOut(
      {arguments.held_out, arguments.force_overlap, "hold other texts out, or add --force-overlap"},
      run.loaded, calibration);
}

bool IsQuantized(const runtime::Weights& weights) {
  const auto any = [](const std::vector<runtime::HostTensor>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [](const runtime::HostTensor& tensor) {
      return tensor.format->block_values > 1;
    });
  };
  return (weights.later != nullptr && any(weights.later->tensors)) ||
         std::any_of(weights.sets.begin(), weights.sets.end(),
                     [&](const runtime::ExpertSet& set) { return any(set.tensors); });
}

// What the groups of --only need, or all.
runtime::RefitEstimate EstimateOf(const RefitRun& run, uint64_t tokens) {
  const std::vector<uint32_t>& only = run.share.only;
  return runtime::EstimateRefit(*run.loaded.model, run.plan, run.arguments.options, tokens,
                                only.empty() ? nullptr : &only);
}

// `tokens` of the sessions are taken.
std::vector<std::string> WarningsOf(const RefitRun& run, const std::vector<TokenSession>& sessions,
                                    uint64_t tokens) {
  std::vector<std::string> warnings;
  std::set<std::string> buckets;
  for (const TokenSession& session : sessions) buckets.insert(session.bucket);
  if (buckets.size() == 1) {
    warnings.push_back(
        Cat("one bucket: all calibration text is ",
            buckets.begin()->empty() ? "of no named bucket" : Quoted(*buckets.begin()),
            "; other text gets worse answers than it would with some of it here, even at weight ",
            run.arguments.options.foreign_weight));
  }
  const uint64_t needed = EstimateOf(run, tokens).tokens_needed;
  if (tokens < needed)
    warnings.push_back(Cat("few tokens: expected about ", FormatCount(needed), " (",
                           runtime::kTokensPerNeuron, " per neuron of each expert), found ",
                           FormatCount(tokens), "; steps that do not help are dropped"));
  if (IsQuantized(*run.loaded.weights))
    warnings.push_back(
        "quantized source: experts are refitted to what the quantized model does, "
        "and lose again when they are quantized once more");
  const auto slow =
      WarnWithoutAlgebra(*run.loaded.executor, "refit",
                         "the device is asked for single products, and the CPU factorizes");
  warnings.insert(warnings.end(), slow.begin(), slow.end());
  return warnings;
}

// Prints what a store that is finished has, after checking its files. False for any other store.
Result<bool> FinishedBefore(const std::string& directory) {
  SHARD_TRY(const RefitStore store, RefitStore::Open(directory));
  SHARD_TRY(const bool finished, store.IsFinished());
  if (!finished) return false;
  for (const RefitOutcome& outcome : store.record().outcomes) {
    SHARD_CHECK(store.Check(outcome.layer, outcome.group));
    PrintMessage(RefitLine({outcome, {}}, true));
  }
  return true;
}

// The largest share of any of `machines`.
double MostOfOneMachine(const RefitRun& run, const runtime::Calibration& text, uint32_t machines) {
  const std::vector<uint32_t> twins = runtime::FirstTwins(run.plan, text);
  const std::vector<uint64_t> costs = CostsOf(run.plan);
  double most = 0;
  for (uint32_t task = 0; task < machines; ++task) {
    const std::vector<uint32_t> groups = GroupsOfTask(twins, costs, task, machines);
    if (groups.empty()) continue;
    const runtime::RefitEstimate share = runtime::EstimateRefit(
        *run.loaded.model, run.plan, run.arguments.options, text.tokens, &groups);
    most = std::max(most, share.products);
  }
  return most;
}

// The machines among which a refit is divided, or could be. With --only it is this one.
uint32_t MachinesFor(const RefitRun& run, const runtime::Calibration& text) {
  if (!run.share.only.empty()) return 1;
  if (run.share.task) return run.share.task->count;
  const std::vector<uint32_t> twins = runtime::FirstTwins(run.plan, text);
  uint32_t distinct = 0;
  for (uint32_t group = 0; group < twins.size(); ++group) distinct += twins[group] == group;
  return distinct;
}

}  // namespace

std::string RefitStoreBeside(const std::string& distribution) {
  return distribution.substr(0, distribution.find_last_not_of('/') + 1) + kRefitStoreSuffix;
}

Result<RefitModelLoad> LoadForRefit(const RuntimeArguments& arguments) {
  RefitModelLoad load;
  load.moments = std::make_unique<runtime::SecondMoments>();
  SHARD_TRY(std::shared_ptr<runtime::Executor> executor, OpenExecutor(arguments));
  executor = std::make_shared<runtime::ObservedExecutor>(std::move(executor), *load.moments);
  RuntimeArguments layers = arguments;
  // A refit goes through the model once, so it never needs the experts of two layers.
  layers.load.experts_later = true;
  SHARD_TRY(load.loaded, LoadModel(arguments.source, layers, std::move(executor)));
  load.moments->SetWeights(*load.loaded.weights);
  return load;
}

Result<RefitDone> RunRefit(const RefitRun& run) {
  const RefitArguments& arguments = run.arguments;
  SHARD_TRY(const std::vector<TokenSession> texts, ReadCalibration(run));
  SHARD_CHECK(CheckHeldOutOf(run, texts));
  RefitRecord record;
  runtime::RecordOptions(arguments.options, record);
  record.model = run.version;
  record.plan = RefitPlanDigest(run.plan);
  runtime::RefitInput input = InputOf(run, texts);
  record.parameters[kSessionWeights] = SessionWeightsText(input.weights);
  // What is refused leaves no store behind.
  SHARD_TRY(const runtime::Calibration taken, runtime::CheckRefit(input, arguments.options));
  record.calibration = CalibrationOf(texts, taken.taken);
  PrintWarnings(WarningsOf(run, texts, taken.tokens));
  const std::string part = TakenLines(taken.buckets);
  if (!part.empty()) PrintMessage(part);
  const std::optional<RefitPart> groups = PartOf(run, taken);
  if (groups && groups->groups.empty()) return RefitDone{std::move(record), {}};
  SHARD_TRY(RefitStoreWriter store, RefitStoreWriter::Open(run.store, record, groups));
  RefitDone done;
  for (uint32_t group = 0; group < run.plan.groups.size() && !groups; ++group)
    done.groups.push_back(group);
  if (groups) {
    done.groups = groups->groups;
    input.groups = groups->groups;
  }
  SHARD_TRY(done.was_there, FinishedBefore(run.store));
  if (done.was_there) {
    done.record = store.record();
    return done;
  }
  Progress progress("refitting", ProgressUnit::kTokens);
  runtime::RefitEvents events;
  events.progress = progress.Shows();
  events.refitted = [&](const runtime::LayerOutcome& outcome, bool again) {
    progress.Clear();
    PrintMessage(RefitLine(outcome, again));
  };
  SHARD_CHECK(runtime::RefitModel(input, arguments.options, events, store, run.store));
  progress.Clear();
  done.record = store.record();
  return done;
}

Result<RefitNeeds> EstimateNeeds(const RefitRun& run) {
  SHARD_TRY(const std::vector<TokenSession> texts, ReadCalibration(run));
  SHARD_CHECK(CheckHeldOutOf(run, texts));
  const runtime::RefitOptions& options = run.arguments.options;
  const runtime::RefitInput input = InputOf(run, texts);
  SHARD_TRY(const runtime::Calibration taken, runtime::CheckRefit(input, options));
  PrintWarnings(WarningsOf(run, texts, taken.tokens));
  runtime::Products products(*run.loaded.executor, options.jobs);
  SHARD_TRY(const double rate, runtime::RateOfRefit(products));
  const uint32_t machines = MachinesFor(run, taken);
  return RefitNeeds{EstimateOf(run, taken.tokens),
                    taken.buckets,
                    taken.tokens,
                    options.memory,
                    rate,
                    machines,
                    machines > 1 ? MostOfOneMachine(run, taken, machines) : 0};
}

}  // namespace moepack::cli
