#include "libshard/plan/expectation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/partition.h"
#include "libshard/plan/plan_steps.h"
#include "libshard/stats/quantile.h"
#include "libshard/stats/session_digest.h"
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

// The expectation of a plan in plan.json:
//
//   "expectation": {"scheme": "session",
//     "calibration": {"format": "moepack-statistics", "digest": "...", "score": "reap",
//                     "sessions": 96, "held_out": 24, "tokens": 61440, "buckets": {"code": 60,
//                     ...}, "pinned": {"3": "82"}, "concentration": {"0": 0.41, ...},
//                     "texts": "0123456789abcdef ..."},
//     "expected": {"on": "held-out sessions", "sessions": 24, "mean": 0.93, "p5": 0.9, "p25": 0.92,
//                  "groups": [{"sessions": 8, ...}, ...],
//                  "contiguous": {...}, "same": {...}, "oracle": {...}}}
//
// "concentration" is by MoE layer, in ascending order. No key is a number: distribution.json has
// the same members, where keys of digits are only allowed as layers of known fields.

namespace {

constexpr const char* kHeldOut = "held-out sessions";
constexpr const char* kTraining = "the sessions that the plan was made from";
constexpr size_t kMaxText = 256;

Json SummaryToJson(const CaptureSummary& summary) {
  return {{"sessions", summary.sessions},
          {"mean", summary.mean},
          {"p5", summary.p5},
          {"p25", summary.p25}};
}

Json CalibrationToJson(const PlanExpectation& expectation) {
  Json out = Json::object();
  out["format"] = expectation.format;
  out["digest"] = expectation.digest;
  out["score"] = kScoreBasisNames[static_cast<size_t>(expectation.basis)];
  out["sessions"] = expectation.sessions;
  out["held_out"] = expectation.held_out;
  out["tokens"] = expectation.tokens;
  out["buckets"] = Json::array();
  for (const auto& [bucket, sessions] : expectation.buckets)
    out["buckets"].push_back(Json{{"bucket", bucket}, {"sessions", sessions}});
  out["pinned"] = Json::array();
  for (const auto& [layer, ids] : expectation.pinned)
    out["pinned"].push_back(Json{{"layer", layer}, {"experts", FormatIds(ids)}});
  out["concentration"] = Json::array();
  for (const LayerConcentration& layer : expectation.concentration)
    out["concentration"].push_back(layer.top_quarter);
  if (!expectation.texts.empty()) out[kCalibrationTexts] = FormatDigests(expectation.texts);
  return out;
}

Json ExpectedToJson(const PlanExpectation& expectation) {
  Json out = {{"on", expectation.held_out > 0 ? kHeldOut : kTraining}};
  out.update(SummaryToJson(expectation.overall));
  out["groups"] = Json::array();
  for (const CaptureSummary& group : expectation.groups)
    out["groups"].push_back(SummaryToJson(group));
  out["contiguous"] = SummaryToJson(expectation.contiguous);
  out["same"] = SummaryToJson(expectation.same);
  out["oracle"] = SummaryToJson(expectation.oracle);
  return out;
}

Result<double> ShareField(const JsonFields& fields, const char* key) {
  SHARD_TRY(const double value, fields.Number(key));
  if (value >= 0 && value <= 1) return value;
  return fields.Wrong(key, "a number from 0 to 1");
}

Result<std::string> TextField(const JsonFields& fields, const char* key) {
  SHARD_TRY(std::string text, fields.String(key));
  if (text.size() <= kMaxText) return text;
  return fields.Wrong(key, "at most 256 bytes");
}

Result<CaptureSummary> ReadSummary(const std::string& where, const Json& value) {
  SHARD_CHECK(CheckObject(where, value));
  const JsonFields fields(value, where);
  CaptureSummary summary;
  SHARD_TRY(summary.sessions, fields.Unsigned("sessions"));
  SHARD_TRY(summary.mean, ShareField(fields, "mean"));
  SHARD_TRY(summary.p5, ShareField(fields, "p5"));
  SHARD_TRY(summary.p25, ShareField(fields, "p25"));
  return summary;
}

Result<CaptureSummary> SummaryField(const JsonFields& fields, const char* key) {
  SHARD_TRY(const Json* value, fields.Object(key));
  return ReadSummary(Cat(fields.where(), ": ", key), *value);
}

Result<ScoreBasis> ReadBasis(const JsonFields& fields) {
  SHARD_TRY(const std::string name, fields.String("score"));
  const auto it = std::find(kScoreBasisNames.begin(), kScoreBasisNames.end(), name);
  if (it == kScoreBasisNames.end()) return fields.Wrong("score", "count, gate or reap");
  return static_cast<ScoreBasis>(it - kScoreBasisNames.begin());
}

Status ReadBuckets(const JsonFields& fields, PlanExpectation& out) {
  SHARD_TRY(const Json* buckets, fields.Array("buckets"));
  for (const Json& entry : *buckets) {
    const std::string where = Cat(fields.where(), ": bucket ", out.buckets.size());
    SHARD_CHECK(CheckObject(where, entry));
    const JsonFields members(entry, where);
    SHARD_TRY(std::string bucket, TextField(members, "bucket"));
    SHARD_TRY(const uint64_t sessions, members.Unsigned("sessions"));
    out.buckets.emplace_back(std::move(bucket), sessions);
  }
  return Ok();
}

Status ReadPinned(const JsonFields& fields, const LayerCounts& layers, PlanExpectation& out) {
  SHARD_TRY(const Json* pinned, fields.Array("pinned"));
  for (const Json& entry : *pinned) {
    const std::string where = Cat(fields.where(), ": pinned");
    SHARD_CHECK(CheckObject(where, entry));
    const JsonFields members(entry, where);
    SHARD_TRY(const uint64_t layer, members.Unsigned("layer"));
    SHARD_TRY(const std::string ids, members.String("experts"));
    const auto found = layers.find(static_cast<uint32_t>(std::min<uint64_t>(layer, UINT32_MAX)));
    if (found == layers.end()) return members.Wrong("layer", "a layer with experts");
    SHARD_TRY(out.pinned[found->first], ParseIds(where, ids, found->second - 1));
  }
  return Ok();
}

Status ReadConcentration(const JsonFields& fields, const LayerCounts& layers,
                         PlanExpectation& out) {
  SHARD_TRY(const Json* shares, fields.Array("concentration"));
  if (shares->size() != layers.size())
    return Error{Code::kCorrupt, Cat(fields.where(), ": concentration: expected ", layers.size(),
                                     " numbers, one per layer, found ", shares->size())};
  auto layer = layers.begin();
  for (const Json& share : *shares) {
    if (!share.is_number() || share.get<double>() < 0 || share.get<double>() > 1)
      return fields.Wrong("concentration", "numbers from 0 to 1");
    out.concentration.push_back({(layer++)->first, share.get<double>()});
  }
  return Ok();
}

Status ReadCalibration(const JsonFields& fields, const LayerCounts& layers, PlanExpectation& out) {
  SHARD_TRY(out.format, TextField(fields, "format"));
  SHARD_TRY(out.digest, TextField(fields, "digest"));
  SHARD_TRY(out.basis, ReadBasis(fields));
  SHARD_TRY(out.sessions, fields.Unsigned("sessions"));
  SHARD_TRY(out.held_out, fields.Unsigned("held_out"));
  SHARD_TRY(out.tokens, fields.Unsigned("tokens"));
  SHARD_CHECK(ReadBuckets(fields, out));
  SHARD_CHECK(ReadPinned(fields, layers, out));
  SHARD_TRY(out.texts, DigestsField(fields, kCalibrationTexts));
  return ReadConcentration(fields, layers, out);
}

Status ReadExpected(const JsonFields& fields, const Json& value, size_t groups,
                    PlanExpectation& out) {
  SHARD_TRY(out.overall, ReadSummary(fields.where(), value));
  SHARD_TRY(const Json* by_group, fields.Array("groups"));
  if (by_group->size() != groups)
    return Error{Code::kCorrupt,
                 Cat(fields.where(), ": groups: expected ", groups, ", found ", by_group->size())};
  for (const Json& group : *by_group) {
    const std::string where = Cat(fields.where(), ": group ", out.groups.size());
    SHARD_TRY(const CaptureSummary summary, ReadSummary(where, group));
    out.groups.push_back(summary);
  }
  SHARD_TRY(out.contiguous, SummaryField(fields, "contiguous"));
  SHARD_TRY(out.same, SummaryField(fields, "same"));
  SHARD_TRY(out.oracle, SummaryField(fields, "oracle"));
  return Ok();
}

}  // namespace

Json ExpectationToJson(const PlanExpectation& expectation) {
  return {{"scheme", expectation.scheme},
          {"calibration", CalibrationToJson(expectation)},
          {"expected", ExpectedToJson(expectation)}};
}

Result<PlanExpectation> ExpectationFromJson(const std::string& where, const Json& document,
                                            size_t groups, const LayerCounts& layers) {
  const JsonFields fields(document, where);
  PlanExpectation out;
  SHARD_TRY(out.scheme, fields.String("scheme"));
  if (!IsLabel(out.scheme)) return fields.Wrong("scheme", "1 to 64 of [A-Za-z0-9._-]");
  SHARD_TRY(const Json* calibration, fields.Object("calibration"));
  SHARD_CHECK(ReadCalibration(JsonFields(*calibration, Cat(where, ": calibration")), layers, out));
  SHARD_TRY(const Json* expected, fields.Object("expected"));
  SHARD_CHECK(
      ReadExpected(JsonFields(*expected, Cat(where, ": expected")), *expected, groups, out));
  return out;
}

}  // namespace moepack
