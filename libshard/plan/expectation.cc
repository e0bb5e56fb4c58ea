#include "libshard/plan/expectation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/plan/partition.h"
#include "libshard/plan/plan_steps.h"
#include "libshard/stats/quantile.h"
#include "libshard/strategies/session_shares.h"

namespace moepack {
namespace {

// Machines may differ in the last bits of a sum; six digits give the same text on all of them.
double Rounded(double value) { return std::round(value * 1e6) / 1e6; }

CaptureSummary SummaryOf(std::vector<double> captures) {
  std::sort(captures.begin(), captures.end());
  // The low quantiles are the sessions that a split hurts; a mean hides them.
  return {captures.size(), Rounded(Mean(captures)), Rounded(SortedQuantile(captures, 0.05)),
          Rounded(SortedQuantile(captures, 0.25))};
}

// The sizes of eligible sets, by group and then layer.
using Sizes = std::vector<std::vector<size_t>>;

HeldSets EligibleSets(const Plan& plan) {
  HeldSets sets(plan.groups.size());
  for (size_t group = 0; group < sets.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers)
      sets[group].push_back(Eligible(plan, group, layer));
  }
  return sets;
}

Sizes SizesOf(const HeldSets& sets) {
  Sizes sizes;
  for (const auto& of_group : sets) {
    sizes.emplace_back();
    for (const ExpertIds& ids : of_group) sizes.back().push_back(ids.size());
  }
  return sizes;
}

// The runs of a contiguous partition, filled up to the sizes with the ids that follow.
HeldSets ContiguousSets(const Plan& plan, const Sizes& sizes) {
  HeldSets sets(sizes.size());
  for (size_t group = 0; group < sizes.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers) {
      const uint32_t start =
          RunStart(expert_count, static_cast<uint32_t>(sizes.size()), static_cast<uint32_t>(group));
      ExpertIds ids;
      for (size_t i = 0; i < sizes[group][sets[group].size()]; ++i)
        ids.push_back((start + static_cast<uint32_t>(i)) % expert_count);
      std::sort(ids.begin(), ids.end());
      sets[group].push_back(std::move(ids));
    }
  }
  return sets;
}

HeldSets SameSets(const SessionShares& shares, const std::vector<double>& sums,
                  const Sizes& sizes) {
  HeldSets sets(sizes.size());
  for (size_t group = 0; group < sizes.size(); ++group) {
    for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
      const auto values = std::span(sums).subspan(shares.offset(layer), shares.expert_count(layer));
      sets[group].push_back(BestExperts(values, values, sizes[group][layer], {}, {}));
    }
  }
  return sets;
}

// For each session, the best of its captures and its group; if several are equal, the group with
// the fewest sessions so far, then the lowest.
struct Found {
  std::vector<double> captures;
  std::vector<size_t> groups;
};

Result<Found> BestOf(const SessionShares& shares, const HeldSets& sets) {
  SHARD_TRY(const std::vector<double> all, CaptureBySessionAndGroup(shares, sets));
  Found found;
  std::vector<size_t> counts(sets.size());
  for (size_t session = 0; session < shares.session_count(); ++session) {
    const double* const row = all.data() + session * sets.size();
    size_t best = 0;
    for (size_t group = 1; group < sets.size(); ++group) {
      // Otherwise all sessions would go to group 0 wherever nodes hold the same.
      if (row[group] > row[best] || (row[group] == row[best] && counts[group] < counts[best]))
        best = group;
    }
    ++counts[best];
    found.captures.push_back(row[best]);
    found.groups.push_back(best);
  }
  return found;
}

// What the session would find on a node with the experts that suit it best, as many as the largest
// node has.
double OracleCapture(const SessionShares& shares, size_t session, const Sizes& sizes) {
  double captured = 0;
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    size_t size = 0;
    for (const auto& of_group : sizes) size = std::max(size, of_group[layer]);
    const std::span<const float> scores = shares.Scores(session, layer);
    std::vector<double> best(scores.begin(), scores.end());
    std::sort(best.begin(), best.end(), std::greater<>());
    const auto end = best.begin() + static_cast<std::ptrdiff_t>(std::min(size, best.size()));
    captured += std::accumulate(best.begin(), end, 0.0) * shares.PerScore(session, layer);
  }
  return captured / static_cast<double>(std::max<size_t>(1, shares.LayersSeen(session)));
}

Result<CaptureSummary> OracleOf(const SessionShares& shares, const Sizes& sizes) {
  std::vector<double> captures(shares.session_count());
  SHARD_CHECK(ParallelFor(captures.size(), 0, [&](size_t session) -> Status {
    captures[session] = OracleCapture(shares, session, sizes);
    return CheckInterrupt();
  }));
  return SummaryOf(std::move(captures));
}

std::vector<LayerConcentration> ConcentrationOf(const ExpertScores& scores,
                                                const SessionShares& shares,
                                                const std::vector<double>& sums) {
  std::vector<LayerConcentration> out;
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    const auto part = std::span(sums).subspan(shares.offset(layer), shares.expert_count(layer));
    std::vector<double> best(part.begin(), part.end());
    std::sort(best.begin(), best.end(), std::greater<>());
    // A quarter of the experts, rounded up.
    const auto quarter = best.begin() + static_cast<std::ptrdiff_t>((best.size() + 3) / 4);
    const double all = std::accumulate(best.begin(), best.end(), 0.0);
    const double top = std::accumulate(best.begin(), quarter, 0.0);
    out.push_back({scores.layers[layer].layer, all > 0 ? Rounded(top / all) : 0});
  }
  return out;
}

// Describes the statistics.
PlanExpectation Described(const Plan& plan, const ExpertScores& scores, const PlanBasis& basis) {
  PlanExpectation out;
  out.scheme = plan.scheme;
  out.format = scores.format;
  out.digest = scores.digest;
  out.basis = scores.basis;
  out.sessions = basis.split.training.size();
  out.held_out = basis.split.held_out.size();
  out.pinned = DecidesFromScores(plan.scheme) ? basis.pinned : LayerExperts();
  std::map<std::string, uint64_t> buckets;
  for (const auto& part : {basis.split.training, basis.split.held_out}) {
    for (const size_t session : part) {
      out.tokens += scores.sessions[session].tokens;
      ++buckets[scores.sessions[session].bucket];
      const std::string& text = scores.sessions[session].tokens_digest;
      if (!text.empty()) out.texts.push_back(text);
    }
  }
  std::sort(out.texts.begin(), out.texts.end());
  out.buckets.assign(buckets.begin(), buckets.end());
  return out;
}

}  // namespace

Result<PlanExpectation> ExpectCapture(const Plan& plan, const PlanBasis& basis) {
  const ExpertScores& scores = *basis.scores;
  PlanExpectation out = Described(plan, scores, basis);
  std::vector<double> sums;
  {
    const SessionShares training(scores, InCanonicalOrder(scores, basis.split.training));
    const std::vector<uint32_t> one_group(training.session_count());
    SHARD_TRY(auto all, SumShares(training, one_group, 1));
    sums = std::move(all[0]);
    out.concentration = ConcentrationOf(scores, training, sums);
  }
  // Without sessions kept apart, the plan is measured on its own; PlanWarnings says so.
  const bool none_left = basis.split.held_out.empty();
  const SessionShares measured(
      scores, InCanonicalOrder(scores, none_left ? basis.split.training : basis.split.held_out));
  const HeldSets sets = EligibleSets(plan);
  const Sizes sizes = SizesOf(sets);
  SHARD_TRY(const Found found, BestOf(measured, sets));
  out.overall = SummaryOf(found.captures);
  for (size_t group = 0; group < sets.size(); ++group) {
    std::vector<double> own;
    for (size_t session = 0; session < found.captures.size(); ++session) {
      if (found.groups[session] == group) own.push_back(found.captures[session]);
    }
    out.groups.push_back(SummaryOf(std::move(own)));
  }
  // Two baselines of the same sizes, without any planning and without any placement, and a bound
  // that no split can exceed.
  SHARD_TRY(const Found contiguous, BestOf(measured, ContiguousSets(plan, sizes)));
  out.contiguous = SummaryOf(contiguous.captures);
  SHARD_TRY(const Found same, BestOf(measured, SameSets(measured, sums, sizes)));
  out.same = SummaryOf(same.captures);
  SHARD_TRY(out.oracle, OracleOf(measured, sizes));
  return out;
}

}  // namespace moepack
