#include "runtime-shim/eval/quality.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "runtime-shim/eval/summary.h"

namespace moepack::runtime {
namespace {

using manifest::DamageFigures;
using manifest::MeanError;
using manifest::QualityFigures;
using manifest::QualityRecord;
using manifest::QualityRow;
using manifest::SixDigits;

MeanError Figure(double mean, double error) { return {SixDigits(mean), SixDigits(error)}; }

// The error of a share of independent tokens is that of a binomial distribution.
MeanError Share(double share, uint64_t tokens) {
  const double variance = share * (1 - share);
  return Figure(share,
                tokens == 0 ? 0 : std::sqrt(std::max(variance, 0.0) / static_cast<double>(tokens)));
}

std::optional<DamageFigures> Figures(const std::optional<Damage>& damage, uint64_t tokens) {
  if (!damage) return std::nullopt;
  // The logarithm undoes the exponential of the summary, and its first-order error undoes that one.
  return DamageFigures{Figure(damage->mean, damage->error),
                       Figure(std::log(damage->perplexity_ratio),
                              damage->perplexity_ratio_error / damage->perplexity_ratio),
                       Share(damage->top1, tokens)};
}

QualityFigures Figures(const Likelihood& likelihood, uint64_t sessions) {
  QualityFigures figures;
  figures.sessions = sessions;
  figures.tokens = likelihood.tokens;
  figures.nats =
      Figure(-likelihood.log_probability, likelihood.perplexity_error / likelihood.perplexity);
  return figures;
}

QualityFigures Figures(const EvalRow& row) {
  QualityFigures figures = Figures(row.likelihood, row.sessions);
  figures.split = Figures(row.split, figures.tokens);
  figures.total = Figures(row.total, figures.tokens);
  return figures;
}

// Puts the figures of `summary` where `place` says, in each run of the record: into the totals, or
// into a bucket.
template <class Place>
void AddFigures(const EvalInput& input, const EvalSummary& summary, uint64_t sessions,
                const Place& place, QualityRecord& record) {
  if (summary.reference)
    place(*record.reference) = Figures(summary.reference->likelihood, sessions);
  if (summary.full) {
    QualityFigures& full = place(*record.unmasked) = Figures(summary.full->likelihood, sessions);
    full.total = Figures(summary.quantization, full.tokens);
  }
  for (size_t i = 0; i < input.groups.size(); ++i)
    place(record.groups[i].second) = Figures(summary.groups[i]);
  place(record.best) = Figures(*summary.best_by_capture);
}

// In the order of their first session; empty if no session has one.
std::vector<std::string> BucketsOf(std::span<const SessionMeasure> measures) {
  std::vector<std::string> buckets;
  bool named = false;
  for (const SessionMeasure& measure : measures) {
    named |= !measure.bucket.empty();
    if (std::find(buckets.begin(), buckets.end(), measure.bucket) == buckets.end())
      buckets.push_back(measure.bucket);
  }
  return named ? buckets : std::vector<std::string>{};
}

}  // namespace

std::string TokensDigest(std::span<const TokenSession> sessions) {
  Sha256 hash;
  const auto number = [&](size_t value) {
    std::array<std::byte, sizeof(uint32_t)> bytes;
    StoreLe(static_cast<uint32_t>(value), bytes);
    hash.Update(bytes);
  };
  const auto text = [&](const std::string& value) {
    // The length comes first, so that no two lists of sessions hash the same bytes.
    number(value.size());
    hash.Update(std::as_bytes(std::span(value)));
  };
  for (const TokenSession& session : sessions) {
    text(session.name);
    text(session.bucket);
    number(session.tokens.size());
    for (const uint32_t id : session.tokens) number(id);
  }
  return hash.Finish();
}

QualityRecord RecordOf(const EvalInput& input, std::span<const SessionMeasure> measures) {
  QualityRecord record;
  if (input.reference) record.reference.emplace();
  if (input.full) record.unmasked.emplace();
  for (const Participant& group : input.groups)
    record.groups.emplace_back(*group.group, QualityRow());
  // Races are not part of the record.
  const EvalSummary all = SummarizeEvaluation(input, measures, 1);
  AddFigures(
      input, all, measures.size(), [](QualityRow & row) -> auto& { return row.all; }, record);
  record.sessions = measures.size();
  record.tokens = record.best.all.tokens;
  for (const std::string& bucket : BucketsOf(measures)) {
    std::vector<SessionMeasure> own;
    std::copy_if(measures.begin(), measures.end(), std::back_inserter(own),
                 [&](const SessionMeasure& measure) { return measure.bucket == bucket; });
    const auto place = [&](QualityRow & row) -> auto& {
      return row.buckets.emplace_back(bucket, QualityFigures()).second;
    };
    AddFigures(input, SummarizeEvaluation(input, own, 1), own.size(), place, record);
  }
  return record;
}

}  // namespace moepack::runtime
