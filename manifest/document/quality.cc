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
constexpr int kMostNats = 1000000;
constexpr double kMaxNats = kMostNats;  // messages have it as 1e+06

Json MeasuredToJson(const MeanError& measured) {
  return {{"mean", measured.mean}, {"error", measured.error}};
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

template <auto kMember, int kLeast, int kMost>
constexpr auto Measured = As<kMember,
                             +[](const JsonFields& fields, const char* name) {
                               return ReadMeasured(fields, name, kLeast, kMost);
                             },
                             MeasuredToJson>;

// A divergence is never negative except through rounding.
constexpr Field<DamageFigures> kDamageFields[] = {
    {"kld", Measured<&DamageFigures::kld, -1, kMostNats>},
    {"extra_nats", Measured<&DamageFigures::extra_nats, -kMostNats, kMostNats>},
    {"top1", Measured<&DamageFigures::top1, 0, 1>},
};

constexpr Field<QualityFigures> kFiguresFields[] = {
    {"sessions", AsCount<&QualityFigures::sessions, kMaxScoredTokens>},
    {"tokens", AsCount<&QualityFigures::tokens, kMaxScoredTokens>},
    {"nats", Measured<&QualityFigures::nats, -1, kMostNats>},
    {"split", AsRecord<&QualityFigures::split, kDamageFields>, Presence::kOptional},
    {"total", AsRecord<&QualityFigures::total, kDamageFields>, Presence::kOptional},
};

using Buckets = std::vector<std::pair<std::string, QualityFigures>>;

Json BucketsToJson(const Buckets& buckets) {
  Json out = Json::array();
  for (const auto& [bucket, figures] : buckets) {
    out.push_back({{"bucket", bucket}});
    WriteFields(kFiguresFields, figures, out.back());
  }
  return out;
}

Result<Buckets> ReadBuckets(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  Buckets buckets;
  for (const Json& entry : *list) {
    if (!entry.is_object()) return fields.Wrong(name, "an array of objects");
    const JsonFields inner(entry, Cat(fields.where(), ": bucket ", buckets.size()));
    auto& [bucket, figures] = buckets.emplace_back();
    SHARD_TRY(bucket, ShortText(inner, "bucket"));
    SHARD_CHECK(ReadFields(kFiguresFields, inner, figures));
  }
  return buckets;
}

constexpr Field<QualityRow> kRowFields[] = {
    {"all", AsRecord<&QualityRow::all, kFiguresFields>},
    {"buckets", As<&QualityRow::buckets, ReadBuckets, BucketsToJson>, Presence::kOptional},
};

bool IsRefitted(const MadeFrom& made_from) { return made_from.refitted; }

bool IsCalibrated(const MadeFrom& made_from) { return made_from.calibrated; }

constexpr auto kRefitCount = AsCount<&MadeFrom::refit, kMaxScoredTokens>;
constexpr auto kCalibrationCount = AsCount<&MadeFrom::calibration, kMaxScoredTokens>;

// null where the distribution does not say.
constexpr Field<MadeFrom> kMadeFromFields[] = {
    {"plan", AsCount<&MadeFrom::plan, kMaxScoredTokens>, Presence::kDefaulted},
    {"refit", {kRefitCount.write, kRefitCount.read, IsRefitted}, Presence::kOptional},
    {"calibration",
     {kCalibrationCount.write, kCalibrationCount.read, IsCalibrated},
     Presence::kOptional},
};

Json MadeFromToJson(const MadeFrom& made_from) { return ToJson(kMadeFromFields, made_from); }

Result<MadeFrom> ReadMadeFrom(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* value, fields.Object(name));
  SHARD_TRY(MadeFrom made_from,
            ReadRecord(kMadeFromFields, Cat(fields.where(), ": ", name), *value));
  made_from.refitted = value->contains("refit");
  made_from.calibrated = value->contains("calibration");
  return made_from;
}

std::string ScoredText(bool half) { return half ? kHalfScored : kAllScored; }

Result<bool> ReadScored(const JsonFields& fields, const char* name) {
  SHARD_TRY(const std::string scored, fields.String(name));
  if (scored == kHalfScored || scored == kAllScored) return scored == kHalfScored;
  return fields.Wrong(name, Cat('"', kAllScored, "\" or \"", kHalfScored, '"').c_str());
}

// Before "groups" and "best".
constexpr Field<QualityRecord> kSettingFields[] = {
    {"tool_version", As<&QualityRecord::tool_version, ShortText>},
    {"executor", As<&QualityRecord::executor, ShortText>},
    {"precision", As<&QualityRecord::precision, ShortText>},
    {"context", AsCount<&QualityRecord::context>},
    {"scored", As<&QualityRecord::score_half, ReadScored, ScoredText>},
    {"tokens_sha256", AsHex<&QualityRecord::tokens_sha256, 64>},
    {"sessions", AsCount<&QualityRecord::sessions, kMaxScoredTokens>},
    {"tokens", AsCount<&QualityRecord::tokens, kMaxScoredTokens>},
    {"made_from", As<&QualityRecord::made_from, ReadMadeFrom, MadeFromToJson>, Presence::kOptional},
    {"reference", AsRecord<&QualityRecord::reference, kRowFields>, Presence::kOptional},
    {"unmasked", AsRecord<&QualityRecord::unmasked, kRowFields>, Presence::kOptional},
};

constexpr Field<QualityRecord> kBestFields[] = {
    {"best", AsRecord<&QualityRecord::best, kRowFields>},
};

Status ReadGroups(const JsonFields& fields, size_t groups, QualityRecord& record) {
  SHARD_TRY(const Json* list, fields.Array("groups"));
  for (const Json& value : *list) {
    if (!value.is_object()) return fields.Wrong("groups", "an array of objects");
    const std::string where = Cat(fields.where(), ": groups[", record.groups.size(), "]");
    const JsonFields inner(value, where);
    SHARD_TRY(const uint64_t group, inner.Unsigned("group"));
    if (group >= groups) return inner.Wrong("group", Cat("a number below ", groups).c_str());
    if (!record.groups.empty() && group <= record.groups.back().first)
      return inner.Wrong("group", "ascending numbers");
    SHARD_TRY(QualityRow row, ReadRecord(kRowFields, where, value));
    record.groups.emplace_back(static_cast<uint32_t>(group), std::move(row));
  }
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
  Json out = ToJson(kSettingFields, record);
  Json& groups = out["groups"] = Json::array();
  for (const auto& [group, row] : record.groups) {
    groups.push_back({{"group", group}});
    WriteFields(kRowFields, row, groups.back());
  }
  WriteFields(kBestFields, record, out);
  return out;
}

Result<QualityRecord> QualityFromJson(const std::string& where, const Json& value, size_t groups) {
  SHARD_TRY(QualityRecord record, ReadRecord(kSettingFields, where, value));
  const JsonFields fields(value, where);
  SHARD_CHECK(ReadGroups(fields, groups, record));
  SHARD_CHECK(ReadFields(kBestFields, fields, record));
  return record;
}

}  // namespace moepack::manifest
