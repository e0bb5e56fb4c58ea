#include "runtime-shim/eval/summary.h"

#include <algorithm>
#include <cmath>

#include "libshard/stats/quantile.h"

namespace moepack::runtime {
namespace {

using Pick = const GroupMeasure*;

void Append(const std::vector<double>& from, std::vector<double>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

void Append(const Comparison& from, Comparison& to) {
  Append(from.divergence, to.divergence);
  to.agreements += from.agreements;
}

Likelihood SummarizeLikelihood(const std::vector<double>& log_probabilities) {
  Likelihood likelihood;
  likelihood.tokens = log_probabilities.size();
  likelihood.log_probability = Mean(log_probabilities);
  likelihood.perplexity = std::exp(-likelihood.log_probability);
  // The error of exp(x) is exp(x) times that of x, to first order, as in llama.cpp's perplexity
  // tool.
  likelihood.perplexity_error = likelihood.perplexity * StandardError(log_probabilities);
  return likelihood;
}

// `from` and `to` are log-probabilities of the same tokens.
Damage SummarizeDamage(Comparison comparison, const std::vector<double>& from,
                       const std::vector<double>& to) {
  std::vector<double>& values = comparison.divergence;
  // The mean of divergences hides that a few tokens carry most of it, hence the quantiles.
  std::sort(values.begin(), values.end());
  Damage damage;
  damage.mean = Mean(values);
  damage.error = StandardError(values);
  damage.median = SortedQuantile(values, 0.5);
  damage.p90 = SortedQuantile(values, 0.9);
  damage.p99 = SortedQuantile(values, 0.99);
  damage.p999 = SortedQuantile(values, 0.999);
  damage.largest = SortedQuantile(values, 1);
  if (!values.empty()) {
    damage.top1 = static_cast<double>(comparison.agreements) / static_cast<double>(values.size());
  }
  std::vector<double> losses;
  for (size_t i = 0; i < from.size(); ++i) losses.push_back(from[i] - to[i]);
  damage.perplexity_ratio = std::exp(Mean(losses));
  // The losses are paired by token, so most of the spread between texts cancels out.
  damage.perplexity_ratio_error = damage.perplexity_ratio * StandardError(losses);
  return damage;
}

std::vector<CaptureSpread> SummarizeCapture(const std::vector<const LayerCapture*>& captures) {
  std::vector<CaptureSpread> layers(captures.empty() ? 0 : captures.front()->size());
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    std::vector<double> shares;
    for (const LayerCapture* capture : captures) {
      shares.insert(shares.end(), (*capture)[layer].begin(), (*capture)[layer].end());
    }
    std::sort(shares.begin(), shares.end());
    layers[layer] = {Mean(shares), SortedQuantile(shares, 0.05), SortedQuantile(shares, 0.25)};
  }
  return layers;
}

double MeanOfLayers(const std::vector<CaptureSpread>& layers) {
  std::vector<double> means;
  // Layers count equally: one that has lost its experts hurts, however many the others find.
  for (const CaptureSpread& layer : layers) means.push_back(layer.mean);
  return Mean(means);
}

std::optional<LoopRate> SummarizeLoops(const std::vector<std::optional<LoopResult>>& loops) {
  LoopRate rate;
  for (const std::optional<LoopResult>& loop : loops) {
    if (!loop) continue;
    ++rate.sessions;
    rate.looping += loop->looping();
    rate.repeated_share += loop->repeated_share;
  }
  if (rate.sessions == 0) return std::nullopt;
  rate.repeated_share /= static_cast<double>(rate.sessions);
  return rate;
}

// `picks` has, for each session, the group that the row is about.
EvalRow SummarizeRow(const std::string& label, std::span<const SessionMeasure> measures,
                     const std::vector<Pick>& picks) {
  std::vector<double> masked, full, reference;
  Comparison from_full, from_reference;
  std::vector<const LayerCapture*> teacher, on_policy;
  std::vector<std::optional<LoopResult>> loops;
  for (size_t i = 0; i < measures.size(); ++i) {
    Append(measures[i].full, full);
    Append(measures[i].reference, reference);
    Append(picks[i]->log_probability, masked);
    Append(picks[i]->from_full, from_full);
    Append(picks[i]->from_reference, from_reference);
    teacher.push_back(&picks[i]->teacher);
    on_policy.push_back(&picks[i]->on_policy);
    loops.push_back(picks[i]->loop);
  }
  EvalRow row;
  row.label = label;
  row.sessions = measures.size();
  row.likelihood = SummarizeLikelihood(masked);
  if (!full.empty()) row.split = SummarizeDamage(std::move(from_full), full, masked);
  if (!reference.empty()) row.total = SummarizeDamage(std::move(from_reference), reference, masked);
  row.teacher = SummarizeCapture(teacher);
  row.on_policy = SummarizeCapture(on_policy);
  row.capture = MeanOfLayers(row.teacher);
  row.on_policy_capture = MeanOfLayers(row.on_policy);
  row.loops = SummarizeLoops(loops);
  return row;
}

SessionChoice Choose(const EvalInput& input, const SessionMeasure& measure, uint32_t race_tokens) {
  SessionChoice choice;
  choice.name = measure.name;
  choice.bucket = measure.bucket;
  std::vector<std::vector<double>> runners;
  for (const GroupMeasure& group : measure.groups) {
    choice.captures.push_back(MeanOfLayers(SummarizeCapture({&group.teacher})));
    runners.push_back(group.log_probability);
    choice.divergences.push_back(
        // From the unmasked model of the same weights if it ran: then quantization, which all
        // groups share, does not decide between them.
        Mean((measure.full.empty() ? group.from_reference : group.from_full).divergence));
  }
  choice.tokens = runners.front().size();
  const auto best = std::max_element(choice.captures.begin(), choice.captures.end());
  choice.by_capture = static_cast<uint32_t>(best - choice.captures.begin());
  const auto least = std::min_element(choice.divergences.begin(), choice.divergences.end());
  choice.by_kld = static_cast<uint32_t>(least - choice.divergences.begin());
  choice.race = RunRace(runners, race_tokens);
  choice.placed = measure.placed;
  for (uint32_t i = 0; choice.placed && i < input.groups.size(); ++i) {
    if (input.groups[i].group == choice.placed->best) choice.by_table = i;
  }
  return choice;
}

double MeanDivergence(const EvalRow& row) { return (row.split ? row.split : row.total)->mean; }

// Ties go to the lowest group.
void RankGroups(EvalSummary& summary) {
  for (uint32_t group = 1; group < summary.groups.size(); ++group) {
    const EvalRow& row = summary.groups[group];
    if (row.capture > summary.groups[summary.most_capture].capture) summary.most_capture = group;
    if (MeanDivergence(row) < MeanDivergence(summary.groups[summary.least_kld]))
      summary.least_kld = group;
  }
}

Assignment SummarizeAssignment(const std::vector<SessionChoice>& sessions, uint32_t group) {
  std::vector<double> assigned, others;
  for (const SessionChoice& session : sessions) {
    (session.by_capture == group ? assigned : others).push_back(session.captures[group]);
  }
  return {assigned.size(), Mean(assigned), Mean(others)};
}

void SummarizeBases(std::span<const SessionMeasure> measures, EvalSummary& summary) {
  std::vector<double> full, reference;
  Comparison quantization;
  std::vector<std::optional<LoopResult>> full_loops, reference_loops;
  for (const SessionMeasure& measure : measures) {
    Append(measure.full, full);
    Append(measure.reference, reference);
    Append(measure.quantization, quantization);
    full_loops.push_back(measure.full_loop);
    reference_loops.push_back(measure.reference_loop);
  }
  if (!full.empty()) summary.full = {SummarizeLikelihood(full), SummarizeLoops(full_loops)};
  if (!reference.empty()) {
    summary.reference = {SummarizeLikelihood(reference), SummarizeLoops(reference_loops)};
  }
  if (full.empty() || reference.empty()) return;
  summary.quantization = SummarizeDamage(std::move(quantization), reference, full);
}

std::vector<Pick> PickGroup(std::span<const SessionMeasure> measures, size_t group) {
  std::vector<Pick> picks;
  for (const SessionMeasure& measure : measures) picks.push_back(&measure.groups[group]);
  return picks;
}

}  // namespace

double LoopRate::rate() const {
  return sessions == 0 ? 0 : static_cast<double>(looping) / static_cast<double>(sessions);
}

EvalSummary SummarizeEvaluation(const EvalInput& input, std::span<const SessionMeasure> measures,
                                uint32_t race_tokens) {
  EvalSummary summary;
  for (const auto& [layer, router] : input.routers) summary.layers.push_back(layer);
  SummarizeBases(measures, summary);
  if (input.groups.empty()) return summary;
  std::vector<Pick> by_capture, by_kld, raced;
  for (const SessionMeasure& measure : measures) {
    summary.sessions.push_back(Choose(input, measure, race_tokens));
    const SessionChoice& choice = summary.sessions.back();
    by_capture.push_back(&measure.groups[choice.by_capture]);
    by_kld.push_back(&measure.groups[choice.by_kld]);
    raced.push_back(&measure.groups[choice.race.winner]);
    summary.agreements += choice.race.winner == choice.by_capture;
    summary.kld_agreements += choice.by_kld == choice.by_capture;
  }
  for (uint32_t group = 0; group < input.groups.size(); ++group) {
    summary.groups.push_back(
        SummarizeRow(input.groups[group].label, measures, PickGroup(measures, group)));
    summary.assignments.push_back(SummarizeAssignment(summary.sessions, group));
  }
  RankGroups(summary);
  if (input.placement) summary.rules = SummarizeRules(summary.sessions);
  summary.best_by_capture = SummarizeRow("best by capture", measures, by_capture);
  summary.best_by_kld = SummarizeRow("best by KLD", measures, by_kld);
  summary.raced = SummarizeRow("race winner", measures, raced);
  return summary;
}

}  // namespace moepack::runtime
