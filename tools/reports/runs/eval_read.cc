#include "tools/reports/runs/eval_read.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"

namespace moepack::cli {
namespace {

constexpr size_t kMaxLabel = 256;
constexpr size_t kMaxEvalGroups = 65536;
constexpr double kMaxDivergence = 1e6;  // nats

Status CheckIsObject(const std::string& where, const Json& value) {
  if (value.is_object()) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
}

// The values of an array of objects, each read by `read`.
template <class T, class Read>
Status ReadEach(const JsonFields& fields, const char* key, std::vector<T>& out, const Read& read) {
  SHARD_TRY(const Json* list, fields.Array(key));
  for (const Json& value : *list) {
    const std::string where = Cat(fields.where(), ": ", key, "[", out.size(), "]");
    SHARD_CHECK(CheckIsObject(where, value));
    SHARD_TRY(T item, read(JsonFields(value, where)));
    out.push_back(std::move(item));
  }
  return Ok();
}

// The object under `key`, read by `read`; no value if it is null or absent.
template <class T, class Read>
Status ReadMaybe(const JsonFields& fields, const char* key, std::optional<T>& out,
                 const Read& read) {
  if (!fields.Has(key)) return Ok();
  SHARD_TRY(const Json* value, fields.Object(key));
  SHARD_TRY(out, read(JsonFields(*value, Cat(fields.where(), ": ", key))));
  return Ok();
}

Result<double> Share(const JsonFields& fields, const char* key) {
  SHARD_TRY(const double value, fields.Number(key));
  if (value >= 0 && value <= 1) return value;
  return fields.Wrong(key, "a number from 0 to 1");
}

Result<runtime::Likelihood> ReadLikelihood(const JsonFields& fields) {
  runtime::Likelihood likelihood;
  SHARD_TRY(likelihood.tokens, fields.Unsigned("tokens"));
  SHARD_TRY(likelihood.log_probability, fields.Number("log_probability"));
  SHARD_TRY(likelihood.perplexity, fields.Number("perplexity"));
  SHARD_TRY(likelihood.perplexity_error, fields.Number("perplexity_error"));
  return likelihood;
}

Result<runtime::Damage> ReadDamage(const JsonFields& fields) {
  runtime::Damage damage;
  SHARD_TRY(const Json* kld, fields.Object("kld"));
  const JsonFields inner(*kld, Cat(fields.where(), ": kld"));
  SHARD_TRY(damage.mean, inner.Number("mean"));
  SHARD_TRY(damage.error, inner.Number("error"));
  SHARD_TRY(damage.median, inner.Number("median"));
  SHARD_TRY(damage.p90, inner.Number("p90"));
  SHARD_TRY(damage.p99, inner.Number("p99"));
  SHARD_TRY(damage.p999, inner.Number("p99_9"));
  SHARD_TRY(damage.largest, inner.Number("largest"));
  SHARD_TRY(damage.top1, Share(fields, "top1"));
  SHARD_TRY(damage.perplexity_ratio, fields.Number("ppl_ratio"));
  SHARD_TRY(damage.perplexity_ratio_error, fields.Number("ppl_ratio_error"));
  return damage;
}

Result<runtime::LoopRate> ReadLoops(const JsonFields& fields) {
  runtime::LoopRate loops;
  SHARD_TRY(loops.sessions, fields.Unsigned("sessions"));
  SHARD_TRY(loops.looping, fields.Unsigned("looping"));
  SHARD_TRY(loops.repeated_share, fields.Number("repeated_share"));
  if (loops.looping > loops.sessions) return fields.Wrong("looping", "at most \"sessions\"");
  return loops;
}

Result<runtime::EvalBase> ReadBase(const JsonFields& fields) {
  runtime::EvalBase base;
  SHARD_TRY(base.likelihood, ReadLikelihood(fields));
  SHARD_CHECK(ReadMaybe(fields, "loops", base.loops, ReadLoops));
  return base;
}

Result<runtime::CaptureSpread> ReadSpread(const JsonFields& fields, const char* key) {
  SHARD_TRY(const Json* value, fields.Object(key));
  const JsonFields inner(*value, Cat(fields.where(), ": ", key));
  runtime::CaptureSpread spread;
  SHARD_TRY(spread.mean, Share(inner, "mean"));
  SHARD_TRY(spread.p5, Share(inner, "p5"));
  SHARD_TRY(spread.p25, Share(inner, "p25"));
  return spread;
}

struct LayerLine {
  uint32_t layer = 0;
  runtime::CaptureSpread teacher, on_policy;
};

Result<LayerLine> ReadLayer(const JsonFields& fields) {
  LayerLine line;
  SHARD_TRY(const uint64_t layer, fields.Unsigned("layer"));
  if (layer >= kMaxLayers) return fields.Wrong("layer", Cat("a number below ", kMaxLayers).c_str());
  line.layer = static_cast<uint32_t>(layer);
  SHARD_TRY(line.teacher, ReadSpread(fields, "teacher"));
  SHARD_TRY(line.on_policy, ReadSpread(fields, "on_policy"));
  return line;
}

// Every row states the layers, which are the same in all; no value before the first row.
using SaidLayers = std::optional<std::vector<uint32_t>>;

Status ReadCapture(const JsonFields& fields, runtime::EvalRow& row, SaidLayers& layers) {
  SHARD_TRY(const Json* value, fields.Object("capture"));
  const JsonFields inner(*value, Cat(fields.where(), ": capture"));
  SHARD_TRY(row.capture, Share(inner, "mean"));
  SHARD_TRY(row.on_policy_capture, Share(inner, "on_policy_mean"));
  std::vector<LayerLine> lines;
  SHARD_CHECK(ReadEach(inner, "layers", lines, ReadLayer));
  std::vector<uint32_t> found;
  for (const LayerLine& line : lines) {
    found.push_back(line.layer);
    row.teacher.push_back(line.teacher);
    row.on_policy.push_back(line.on_policy);
  }
  if (!layers) layers = found;
  if (*layers != found) return inner.Wrong("layers", "the same layers as before");
  return Ok();
}

Result<std::string> Label(const JsonFields& fields, const char* key) {
  SHARD_TRY(std::string label, fields.String(key));
  if (label.size() <= kMaxLabel) return label;
  return fields.Wrong(key, "at most 256 bytes");
}

Result<runtime::EvalRow> ReadEvalRow(const JsonFields& fields, SaidLayers& layers) {
  runtime::EvalRow row;
  SHARD_TRY(row.label, Label(fields, "label"));
  SHARD_TRY(row.sessions, fields.Unsigned("sessions"));
  SHARD_TRY(row.likelihood, ReadLikelihood(fields));
  SHARD_CHECK(ReadMaybe(fields, "split", row.split, ReadDamage));
  SHARD_CHECK(ReadMaybe(fields, "total", row.total, ReadDamage));
  if (!row.split && !row.total) return fields.Wrong("split", "an object here or under \"total\"");
  SHARD_CHECK(ReadCapture(fields, row, layers));
  SHARD_CHECK(ReadMaybe(fields, "loops", row.loops, ReadLoops));
  return row;
}

struct GroupLine {
  runtime::EvalRow row;
  runtime::Assignment assignment;
};

Result<GroupLine> ReadGroupLine(const JsonFields& fields, SaidLayers& layers) {
  GroupLine group;
  SHARD_TRY(group.row, ReadEvalRow(fields, layers));
  SHARD_TRY(const Json* assigned, fields.Object("assigned"));
  const JsonFields inner(*assigned, Cat(fields.where(), ": assigned"));
  SHARD_TRY(group.assignment.sessions, inner.Unsigned("sessions"));
  SHARD_TRY(group.assignment.assigned, Share(inner, "capture"));
  SHARD_TRY(group.assignment.others, Share(inner, "capture_of_others"));
  return group;
}

// The label of one of the groups, as its index among them.
Result<uint32_t> GroupAt(const JsonFields& fields, const char* key,
                         const std::vector<runtime::EvalRow>& groups) {
  SHARD_TRY(const std::string label, Label(fields, key));
  for (uint32_t i = 0; i < groups.size(); ++i) {
    if (groups[i].label == label) return i;
  }
  return fields.Wrong(key, "the label of a group");
}

// One for each group.
Status ReadNumbers(const JsonFields& fields, const char* key, size_t count, double least,
                   double most, std::vector<double>& out) {
  SHARD_TRY(const Json* list, fields.Array(key));
  for (const Json& value : *list) {
    if (!value.is_number() || value.get<double>() < least || value.get<double>() > most)
      return fields.Wrong(key, Cat("numbers from ", least, " to ", most).c_str());
    out.push_back(value.get<double>());
  }
  if (out.size() == count) return Ok();
  return fields.Wrong(key, Cat("one number for each of ", Plural(count, "group")).c_str());
}

Result<PlacementAnswer> ReadPlaced(const JsonFields& fields) {
  PlacementAnswer answer;
  SHARD_TRY(const uint64_t group, fields.Unsigned("group"));
  if (group >= kMaxEvalGroups)
    return fields.Wrong("group", Cat("less than ", kMaxEvalGroups).c_str());
  answer.best = static_cast<uint32_t>(group);
  SHARD_TRY(answer.margin, fields.Number("margin"));
  SHARD_TRY(answer.sure, fields.Bool("sure"));
  SHARD_TRY(const uint64_t tokens, fields.Unsigned("tokens"));
  answer.tokens = static_cast<uint32_t>(std::min<uint64_t>(tokens, UINT32_MAX));
  SHARD_TRY(answer.known_share, Share(fields, "known_share"));
  return answer;
}

Status ReadRace(const JsonFields& fields, const std::vector<runtime::EvalRow>& groups,
                runtime::RaceResult& race) {
  SHARD_TRY(const Json* value, fields.Object("race"));
  const JsonFields inner(*value, Cat(fields.where(), ": race"));
  SHARD_TRY(race.winner, GroupAt(inner, "winner", groups));
  SHARD_TRY(const uint64_t tokens, inner.Unsigned("tokens"));
  race.tokens = static_cast<uint32_t>(std::min<uint64_t>(tokens, UINT32_MAX));
  SHARD_TRY(race.margin, inner.Number("margin"));
  return Ok();
}

Result<runtime::SessionChoice> ReadSession(const JsonFields& fields,
                                           const std::vector<runtime::EvalRow>& groups) {
  runtime::SessionChoice session;
  SHARD_TRY(session.name, fields.String("session"));
  SHARD_TRY(session.bucket, fields.String("bucket"));
  SHARD_TRY(session.tokens, fields.Unsigned("tokens"));
  SHARD_CHECK(ReadNumbers(fields, "captures", groups.size(), 0, 1, session.captures));
  SHARD_TRY(session.by_capture, GroupAt(fields, "by_capture", groups));
  // The minimum allows for rounding below 0.
  SHARD_CHECK(
      ReadNumbers(fields, "divergences", groups.size(), -1, kMaxDivergence, session.divergences));
  SHARD_TRY(session.by_kld, GroupAt(fields, "by_kld", groups));
  SHARD_CHECK(ReadRace(fields, groups, session.race));
  SHARD_CHECK(ReadMaybe(fields, "placed", session.placed, ReadPlaced));
  if (!session.placed) return session;
  SHARD_TRY(const Json* answer, fields.Object("placed"));
  const JsonFields placed(*answer, Cat(fields.where(), ": placed"));
  if (!placed.Has("label")) return session;
  SHARD_TRY(session.by_table, GroupAt(placed, "label", groups));
  return session;
}

Result<std::optional<uint64_t>> OptionalCount(const JsonFields& fields, const char* key) {
  if (!fields.Has(key)) return std::optional<uint64_t>();
  SHARD_TRY(const uint64_t count, fields.Unsigned(key));
  return std::optional(count);
}

Result<runtime::RuleFigures> ReadRule(const JsonFields& fields) {
  runtime::RuleFigures rule;
  SHARD_TRY(rule.rule, Label(fields, "rule"));
  SHARD_TRY(rule.sessions, fields.Unsigned("sessions"));
  SHARD_TRY(rule.accuracy, Share(fields, "accuracy"));
  SHARD_TRY(rule.regret, fields.Number("regret"));
  SHARD_TRY(rule.sure, OptionalCount(fields, "sure"));
  SHARD_TRY(rule.sure_right, OptionalCount(fields, "sure_right"));
  return rule;
}

Result<CalibrationKeys> ReadCalibration(const JsonFields& fields) {
  CalibrationKeys keys;
  SHARD_TRY(keys.version, Label(fields, "version"));
  SHARD_TRY(keys.method, Label(fields, "method"));
  SHARD_TRY(keys.texts, Label(fields, "texts"));
  SHARD_TRY(keys.tokens, fields.Unsigned("tokens"));
  return keys;
}

Status ReadSetting(const JsonFields& fields, EvalReport& report) {
  SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
  if (version != kEvaluationVersion) {
    return Error{Code::kUnsupported, Cat(fields.where(), ": version: expected ", kEvaluationVersion,
                                         ", found ", version)};
  }
  SHARD_TRY(report.executor, Label(fields, "executor"));
  SHARD_TRY(report.precision, Label(fields, "precision"));
  SHARD_TRY(const uint64_t context, fields.Unsigned("context"));
  report.context = static_cast<uint32_t>(std::min<uint64_t>(context, UINT32_MAX));
  SHARD_TRY(const std::string scored, fields.String("scored"));
  report.score_half = scored == "second half";
  if (!fields.Has("versions")) return Ok();
  report.distribution = true;
  SHARD_TRY(const Json* versions, fields.Object("versions"));
  const JsonFields inner(*versions, Cat(fields.where(), ": versions"));
  SHARD_TRY(report.versions.model, Label(inner, "model"));
  SHARD_TRY(report.versions.shard, Label(inner, "shard"));
  SHARD_TRY(report.versions.replica, Label(inner, "replica"));
  return Ok();
}

Status ReadGroups(const JsonFields& fields, runtime::EvalSummary& summary) {
  SaidLayers layers;
  std::vector<GroupLine> groups;
  SHARD_CHECK(ReadEach(fields, "groups", groups,
                       [&](const JsonFields& group) { return ReadGroupLine(group, layers); }));
  if (groups.size() > kMaxEvalGroups)
    return fields.Wrong("groups", Cat("at most ", kMaxEvalGroups, " groups").c_str());
  for (GroupLine& group : groups) {
    summary.groups.push_back(std::move(group.row));
    summary.assignments.push_back(group.assignment);
  }
  const auto read_row = [&](const JsonFields& row) { return ReadEvalRow(row, layers); };
  SHARD_CHECK(ReadMaybe(fields, "best", summary.best_by_capture, read_row));
  SHARD_CHECK(ReadMaybe(fields, "best_by_kld", summary.best_by_kld, read_row));
  SHARD_CHECK(ReadMaybe(fields, "race_winner", summary.raced, read_row));
  summary.layers = layers.value_or(std::vector<uint32_t>());
  if (summary.groups.empty()) return Ok();
  if (!summary.best_by_capture || !summary.best_by_kld || !summary.raced)
    return fields.Wrong("best", "an object, and so \"best_by_kld\" and \"race_winner\"");
  SHARD_TRY(const Json* best, fields.Object("best_groups"));
  const JsonFields inner(*best, Cat(fields.where(), ": best_groups"));
  SHARD_TRY(summary.most_capture, GroupAt(inner, "capture", summary.groups));
  SHARD_TRY(summary.least_kld, GroupAt(inner, "kld", summary.groups));
  return Ok();
}

Status ReadGates(const JsonFields& fields, EvalReport& report) {
  SHARD_TRY(const Json* failed, fields.Array("failed_gates"));
  for (const Json& gate : *failed) {
    if (!gate.is_string()) return fields.Wrong("failed_gates", "an array of strings");
    report.failed.push_back(gate.get<std::string>());
  }
  return Ok();
}

}  // namespace

Result<EvalReport> EvalFromJson(const std::string& where, const Json& document) {
  SHARD_CHECK(CheckIsObject(where, document));
  const JsonFields fields(document, where);
  SHARD_TRY(const std::string format, fields.String("format"));
  if (format != kEvaluationFormat)
    return fields.Wrong("format", Cat('"', kEvaluationFormat, '"').c_str());
  EvalReport report;
  SHARD_CHECK(ReadSetting(fields, report));
  runtime::EvalSummary& summary = report.summary;
  SHARD_CHECK(ReadMaybe(fields, "calibrated", report.calibrated, ReadCalibration));
  SHARD_CHECK(ReadMaybe(fields, "reference", summary.reference, ReadBase));
  SHARD_CHECK(ReadMaybe(fields, "unmasked", summary.full, ReadBase));
  SHARD_CHECK(ReadMaybe(fields, "quantization", summary.quantization, ReadDamage));
  SHARD_CHECK(ReadGroups(fields, summary));
  SHARD_CHECK(ReadEach(fields, "sessions", summary.sessions, [&](const JsonFields& session) {
    return ReadSession(session, summary.groups);
  }));
  SHARD_TRY(summary.agreements, fields.Unsigned("race_agreements"));
  SHARD_TRY(summary.kld_agreements, fields.Unsigned("kld_agreements"));
  if (fields.Has("placement")) {
    SHARD_CHECK(ReadEach(fields, "placement", summary.rules, ReadRule));
  }
  if (fields.Has("quality")) {
    SHARD_TRY(const Json* quality, fields.Object("quality"));
    SHARD_TRY(report.quality,
              manifest::QualityFromJson(Cat(where, ": quality"), *quality, kMaxEvalGroups));
  }
  SHARD_CHECK(ReadGates(fields, report));
  return report;
}

}  // namespace moepack::cli
