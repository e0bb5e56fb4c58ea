#include "manifest/document/quality.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {
namespace {

constexpr const char* kAllScored = "all but the first";
constexpr const char* kHalfScored = "second half";
constexpr size_t kMaxQualityText = 256;
constexpr uint64_t kMaxScoredTokens = uint64_t{1} << 53;
constexpr double kMaxNats = 1e6;

Json MeasuredToJson(const MeanError& measured) {
  return {{"mean", measured.mean}, {"error", measured.error}};
}

Json DamageToJson(const DamageFigures& damage) {
  return {{"kld", MeasuredToJson(damage.kld)},
          {"extra_nats", MeasuredToJson(damage.extra_nats)},
          {"top1", MeasuredToJson(damage.top1)}};
}

Json FiguresToJson(const QualityFigures& figures) {
  Json out = {{"sessions", figures.sessions},
              {"tokens", figures.tokens},
              {"nats", MeasuredToJson(figures.nats)}};
  if (figures.split) out["split"] = DamageToJson(*figures.split);
  if (figures.total) out["total"] = DamageToJson(*figures.total);
  return out;
}

Json CountOrNull(const std::optional<uint64_t>& count) {
  return count ? Json(*count) : Json(nullptr);
}

Json MadeFromToJson(const MadeFrom& made_from) {
  Json out = {{"plan", CountOrNull(made_from.plan)}};
  if (made_from.refitted) out["refit"] = CountOrNull(made_from.refit);
  return out;
}

Json RowToJson(const QualityRow& row) {
  Json out = {{"all", FiguresToJson(row.all)}};
  if (row.buckets.empty()) return out;
  Json& buckets = out["buckets"] = Json::array();
  for (const auto& [bucket, figures] : row.buckets) {
    Json entry = {{"bucket", bucket}};
    entry.update(FiguresToJson(figures));
    buckets.push_back(std::move(entry));
  }
  return out;
}

Result<std::string> ShortText(const JsonFields& fields, const char* key) {
  SHARD_TRY(std::string text, fields.String(key));
  if (text.size() <= kMaxQualityText) return text;
  return fields.Wrong(key, "at most 256 bytes");
}

Result<MeanError> ReadMeasured(const JsonFields& fields, const char* key, double least,
                               double most) {
  SHARD_TRY(const Json* value, fields.Object(key));
  const JsonFields inner(*value, Cat(fields.where(), ": ", key));
  MeanError measured;
  SHARD_TRY(measured.mean, inner.Number("mean"));
  SHARD_TRY(measured.error, inner.Number("error"));
  if (measured.mean < least || measured.mean > most)
    return inner.Wrong("mean", Cat("a number from ", least, " to ", most).c_str());
  if (measured.error < 0 || measured.error > kMaxNats)
    return inner.Wrong("error", Cat("a number from 0 to ", kMaxNats).c_str());
  return measured;
}

Result<std::optional<DamageFigures>> ReadDamage(const JsonFields& fields, const char* key) {
  if (!fields.Has(key)) return std::optional<DamageFigures>();
  SHARD_TRY(const Json* value, fields.Object(key));
  const JsonFields inner(*value, Cat(fields.where(), ": ", key));
  DamageFigures damage;
  // A divergence is never negative except through rounding.
  SHARD_TRY(damage.kld, ReadMeasured(inner, "kld", -1, kMaxNats));
  SHARD_TRY(damage.extra_nats, ReadMeasured(inner, "extra_nats", -kMaxNats, kMaxNats));
  SHARD_TRY(damage.top1, ReadMeasured(inner, "top1", 0, 1));
  return std::optional(damage);
}

Result<QualityFigures> ReadFigures(const JsonFields& fields) {
  QualityFigures figures;
  SHARD_TRY(figures.sessions, NumberField(fields, "sessions", kMaxScoredTokens));
  SHARD_TRY(figures.tokens, NumberField(fields, "tokens", kMaxScoredTokens));
  SHARD_TRY(figures.nats, ReadMeasured(fields, "nats", -1, kMaxNats));
  SHARD_TRY(figures.split, ReadDamage(fields, "split"));
  SHARD_TRY(figures.total, ReadDamage(fields, "total"));
  return figures;
}

Result<QualityRow> ReadRow(const std::string& where, const Json& value) {
  const JsonFields fields(value, where);
  QualityRow row;
  SHARD_TRY(const Json* all, fields.Object("all"));
  SHARD_TRY(row.all, ReadFigures(JsonFields(*all, Cat(where, ": all"))));
  if (!fields.Has("buckets")) return row;
  SHARD_TRY(const Json* buckets, fields.Array("buckets"));
  for (const Json& entry : *buckets) {
    if (!entry.is_object()) return fields.Wrong("buckets", "an array of objects");
    const JsonFields inner(entry, Cat(where, ": bucket ", row.buckets.size()));
    SHARD_TRY(std::string bucket, ShortText(inner, "bucket"));
    SHARD_TRY(QualityFigures figures, ReadFigures(inner));
    row.buckets.emplace_back(std::move(bucket), std::move(figures));
  }
  return row;
}

Result<std::optional<QualityRow>> ReadOptionalRow(const JsonFields& fields, const char* key) {
  if (!fields.Has(key)) return std::optional<QualityRow>();
  SHARD_TRY(const Json* value, fields.Object(key));
  SHARD_TRY(QualityRow row, ReadRow(Cat(fields.where(), ": ", key), *value));
  return std::optional(std::move(row));
}

Status ReadGroups(const JsonFields& fields, size_t groups, QualityRecord& record) {
  SHARD_TRY(const Json* list, fields.Array("groups"));
  for (const Json& value : *list) {
    if (!value.is_object()) return fields.Wrong("groups", "an array of objects");
    const std::string where = Cat(fields.where(), ": groups[", record.groups.size(), "]");
    const JsonFields inner(value, where);
    SHARD_TRY(const uint64_t group, inner.Unsigned("group"));
    if (group >= groups) return inner.Wrong("group", Cat("less than ", groups).c_str());
    if (!record.groups.empty() && group <= record.groups.back().first)
      return inner.Wrong("group", "ascending numbers");
    SHARD_TRY(QualityRow row, ReadRow(where, value));
    record.groups.emplace_back(static_cast<uint32_t>(group), std::move(row));
  }
  return Ok();
}

Result<std::optional<uint64_t>> CountField(const JsonFields& fields, const char* key) {
  if (!fields.Has(key)) return std::optional<uint64_t>();
  SHARD_TRY(const uint64_t count, NumberField(fields, key, kMaxScoredTokens));
  return std::optional(count);
}

Result<std::optional<MadeFrom>> ReadMadeFrom(const JsonFields& fields) {
  if (!fields.Has("made_from")) return std::optional<MadeFrom>();
  SHARD_TRY(const Json* value, fields.Object("made_from"));
  const JsonFields inner(*value, Cat(fields.where(), ": made_from"));
  MadeFrom made_from;
  SHARD_TRY(made_from.plan, CountField(inner, "plan"));
  made_from.refitted = value->contains("refit");
  SHARD_TRY(made_from.refit, CountField(inner, "refit"));
  return std::optional(made_from);
}

Status ReadSetting(const JsonFields& fields, QualityRecord& record) {
  SHARD_TRY(record.tool_version, ShortText(fields, "tool_version"));
  SHARD_TRY(record.executor, ShortText(fields, "executor"));
  SHARD_TRY(record.precision, ShortText(fields, "precision"));
  SHARD_TRY(const uint64_t context, NumberField(fields, "context", UINT32_MAX));
  record.context = static_cast<uint32_t>(context);
  SHARD_TRY(const std::string scored, fields.String("scored"));
  record.score_half = scored == kHalfScored;
  if (!record.score_half && scored != kAllScored)
    return fields.Wrong("scored", Cat('"', kAllScored, "\" or \"", kHalfScored, '"').c_str());
  SHARD_TRY(record.tokens_sha256, HexField(fields, "tokens_sha256", 64));
  SHARD_TRY(record.sessions, NumberField(fields, "sessions", kMaxScoredTokens));
  SHARD_TRY(record.tokens, NumberField(fields, "tokens", kMaxScoredTokens));
  SHARD_TRY(record.made_from, ReadMadeFrom(fields));
  return Ok();
}

}  // namespace

double SixDigits(double value) {
  if (!std::isfinite(value) || value == 0) return value == 0 ? 0 : value;
  char text[40];
  // to_chars and from_chars depend on no locale, so every machine writes the same digits.
  const auto end =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific, 5);
  double rounded = 0;
  std::from_chars(text, end.ptr, rounded);
  return rounded;
}

Json QualityToJson(const QualityRecord& record) {
  Json out = {{"tool_version", record.tool_version},
              {"executor", record.executor},
              {"precision", record.precision},
              {"context", record.context},
              {"scored", record.score_half ? kHalfScored : kAllScored},
              {"tokens_sha256", record.tokens_sha256},
              {"sessions", record.sessions},
              {"tokens", record.tokens}};
  if (record.made_from) out["made_from"] = MadeFromToJson(*record.made_from);
  if (record.reference) out["reference"] = RowToJson(*record.reference);
  if (record.unmasked) out["unmasked"] = RowToJson(*record.unmasked);
  Json& groups = out["groups"] = Json::array();
  for (const auto& [group, row] : record.groups) {
    Json entry = {{"group", group}};
    entry.update(RowToJson(row));
    groups.push_back(std::move(entry));
  }
  out["best"] = RowToJson(record.best);
  return out;
}

Result<QualityRecord> QualityFromJson(const std::string& where, const Json& value, size_t groups) {
  if (!value.is_object()) {
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  }
  const JsonFields fields(value, where);
  QualityRecord record;
  SHARD_CHECK(ReadSetting(fields, record));
  SHARD_TRY(record.reference, ReadOptionalRow(fields, "reference"));
  SHARD_TRY(record.unmasked, ReadOptionalRow(fields, "unmasked"));
  SHARD_CHECK(ReadGroups(fields, groups, record));
  SHARD_TRY(const Json* best, fields.Object("best"));
  SHARD_TRY(record.best, ReadRow(Cat(where, ": best"), *best));
  return record;
}

}  // namespace moepack::manifest
