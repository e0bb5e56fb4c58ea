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
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/expectation.h"
#include "libshard/plan/plan_steps.h"
#include "libshard/stats/session_digest.h"

namespace moepack {
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
