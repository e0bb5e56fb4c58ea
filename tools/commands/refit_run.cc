#include "tools/commands/refit_run.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/refit/refit_store.h"
#include "runtime-shim/model/bos_token.h"
#include "runtime-shim/refit/estimate.h"
#include "runtime-shim/refit/overlap.h"
#include "runtime-shim/refit/refit.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/options/source.h"
#include "tools/reports/profile_report.h"
#include "tools/reports/refit_report.h"

namespace moepack::cli {
namespace {

// Rows, columns and tokens of the product that says how fast this machine is.
constexpr size_t kTrialWidth = 1024;

Result<std::vector<TokenSession>> ReadCalibration(const RefitRun& run, const RefitSource& source) {
  return ReadSessions(run.refit.texts, source.loaded.model->vocabulary(),
                      TokenizeAs(source.loaded.weights));
}

std::vector<runtime::CalibrationSession> SessionsOf(const std::vector<TokenSession>& read) {
  std::vector<runtime::CalibrationSession> sessions;
  for (const TokenSession& session : read)
    sessions.push_back({session.name, session.bucket, session.tokens, {}});
  return sessions;
}

Status CheckHeldOut(const RefitRun& run, const RefitSource& source,
                    const std::vector<TokenSession>& calibration) {
  if (run.refit.held_out.empty()) return Ok();
  TextArguments texts;
  texts.texts = run.refit.held_out;
  SHARD_TRY(
      const std::vector<TokenSession> held_out,
      ReadSessions(texts, source.loaded.model->vocabulary(), TokenizeAs(source.loaded.weights)));
  const auto overlaps = runtime::FindOverlaps(SessionsOf(calibration), SessionsOf(held_out));
  const Status checked = runtime::CheckOverlaps(overlaps);
  if (checked || !run.refit.force_overlap) return checked;
  PrintWarnings({Cat("overlap: ", checked.error().message)});
  return Ok();
}

std::vector<std::string> WarningsOf(const RefitSource& source, const RefitRun& run,
                                    const std::vector<TokenSession>& sessions) {
  std::vector<std::string> warnings;
  std::set<std::string> buckets;
  for (const TokenSession& session : sessions) buckets.insert(session.bucket);
  if (buckets.size() == 1) {
    warnings.push_back(
        Cat("one bucket: all calibration text is ",
            buckets.begin()->empty() ? "of no named bucket" : Quoted(*buckets.begin()),
            "; other text gets worse answers than it would with some of it here, even at weight ",
            run.refit.options.foreign_weight));
  }
  const uint64_t tokens = CountTokens(sessions);
  const uint64_t needed =
      runtime::EstimateRefit(*source.loaded.model, source.plan, run.refit.options, tokens)
          .tokens_needed;
  if (tokens < needed)
    warnings.push_back(Cat("few tokens: expected about ", FormatCount(needed), " (",
                           runtime::kTokensPerNeuron, " per neuron of each expert), found ",
                           FormatCount(tokens), "; steps that do not help are dropped"));
  const runtime::Weights& weights = *source.loaded.weights;
  for (const runtime::ExpertSet& set : weights.sets) {
    const bool quantized = std::any_of(
        set.tensors.begin(), set.tensors.end(),
        [](const runtime::HostTensor& tensor) { return tensor.format->block_values > 1; });
    if (!quantized) continue;
    warnings.push_back(
        "quantized source: experts are refitted to what the quantized model does, "
        "and lose again when they are quantized anew");
    break;
  }
  return warnings;
}

// Multiplications with an addition, per second.
Result<double> RateOf(runtime::Executor& executor) {
  const std::vector<float> values(kTrialWidth * kTrialWidth, 0.5f);
  runtime::Products products(executor, 1);
  runtime::Linear weights;
  SHARD_TRY(const runtime::BufferPtr buffer, executor.Load(std::as_bytes(std::span(values))));
  weights.weight = {buffer.get(), 0, quant::FindFormat("f32"), kTrialWidth, kTrialWidth};
  std::vector<float> out(values.size());
  const auto start = std::chrono::steady_clock::now();
  SHARD_CHECK(products.Project(weights, values, out));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return static_cast<double>(kTrialWidth * kTrialWidth * kTrialWidth) /
         std::max(taken.count(), 1e-9);
}

}  // namespace

Result<RefitSource> OpenRefitSource(const RuntimeArguments& runtime, const std::string& plan_file) {
  RefitSource source;
  SHARD_TRY(auto executor, OpenExecutor(runtime));
  SHARD_TRY(source.loaded, LoadModel(runtime.source, runtime, std::move(executor)));
  const runtime::Weights& weights = *source.loaded.weights;
  if (weights.plan) {
    if (!plan_file.empty())
      return Error{Code::kInvalidArgument,
                   Cat("--plan has no effect: ", runtime.source, " has a plan of its own"),
                   "leave it out, or name the source of the distribution"};
    source.plan = *weights.plan;
    source.version = weights.model_version;
    return source;
  }
  if (plan_file.empty())
    return Error{Code::kInvalidArgument,
                 Cat("--plan is required: ", runtime.source, " is not a distribution"),
                 "`moepack plan SRC -o plan.json` makes one"};
  SHARD_TRY(const moepack::Source opened, OpenSource(runtime.source));
  SHARD_TRY(const MoeModel model, MoeModel::Open(opened, runtime.load.model));
  SHARD_TRY(source.plan, ReadPlanFile(plan_file, model));
  source.version = model.Version("");
  return source;
}

Result<RefitRecord> RunRefit(const RefitRun& run, const RefitSource& source) {
  SHARD_TRY(const std::vector<TokenSession> read, ReadCalibration(run, source));
  SHARD_CHECK(CheckHeldOut(run, source, read));
  PrintWarnings(WarningsOf(source, run, read));
  SHARD_TRY(const std::vector<runtime::CalibrationSession> sessions,
            WeighSessions(run.refit, source.plan, read));
  RefitRecord record;
  runtime::RecordOptions(run.refit.options, record);
  record.model = source.version;
  record.plan = RefitPlanDigest(source.plan);
  record.calibration = CalibrationOf(read);
  SHARD_TRY(RefitStoreWriter store, RefitStoreWriter::Open(run.store, record));
  Progress progress("refitting", ProgressUnit::kTokens);
  runtime::RefitEvents events;
  events.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total); };
  events.refitted = [&](const runtime::LayerOutcome& outcome, bool again) {
    progress.Clear();
    PrintMessage(RefitLine(outcome, again));
  };
  const runtime::RefitInput input = {*source.loaded.model, source.plan, sessions,
                                     runtime::BosToken(source.loaded.weights->metadata)};
  SHARD_CHECK(runtime::RefitModel(input, run.refit.options, events, store, run.store));
  return store.record();
}

Result<std::string> DescribeRefit(const RefitRun& run, const RefitSource& source) {
  SHARD_TRY(const std::vector<TokenSession> read, ReadCalibration(run, source));
  SHARD_CHECK(CheckHeldOut(run, source, read));
  PrintWarnings(WarningsOf(source, run, read));
  SHARD_TRY(const double rate, RateOf(*source.loaded.executor));
  const uint64_t tokens = CountTokens(read);
  return RefitPlanText(
      runtime::EstimateRefit(*source.loaded.model, source.plan, run.refit.options, tokens), tokens,
      run.refit.options.memory, rate);
}

}  // namespace moepack::cli
