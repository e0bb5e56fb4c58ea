#include "libshard/refit/refit_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/format_version.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/stats/session_digest.h"

namespace moepack {
namespace {

constexpr size_t kVersionDigits = 16, kSha256Digits = 64;
// The limits are far above what a refit writes; they keep a hostile record from taking memory.
constexpr size_t kMaxText = 256;          // of a name, bucket, step or parameter
constexpr size_t kMaxEntries = 1u << 16;  // steps, parameters, texts

Result<std::string> ReadHex(const JsonFields& fields, const char* key, size_t digits) {
  SHARD_TRY(std::string text, fields.String(key));
  if (!IsHex(text, digits))
    return fields.Wrong(
        key, digits == kVersionDigits ? "16 hexadecimal digits" : "64 hexadecimal digits");
  return text;
}

Status CheckShort(const std::string& where, std::string_view text) {
  if (text.size() <= kMaxText) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": expected at most ", kMaxText, " bytes, found ", text.size())};
}

Result<std::string> ReadShort(const JsonFields& fields, const char* key) {
  SHARD_TRY(std::string text, fields.String(key));
  SHARD_CHECK(CheckShort(Cat(fields.where(), ": ", key), text));
  return text;
}

Status CheckObjectAt(const std::string& where, const Json& value) {
  if (value.is_object()) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
}

Result<const Json*> ReadEntries(const JsonFields& fields, const char* key, bool array) {
  SHARD_TRY(const Json* entries, array ? fields.Array(key) : fields.Object(key));
  if (entries->size() <= kMaxEntries) return entries;
  return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected at most ", kMaxEntries,
                                   " entries, found ", entries->size())};
}

Status ReadSteps(const JsonFields& fields, RefitRecord& record) {
  SHARD_TRY(const Json* steps, ReadEntries(fields, "steps", true));
  for (const Json& step : *steps) {
    if (!step.is_string()) return fields.Wrong("steps", "a list of names");
    record.steps.push_back(step.get<std::string>());
    SHARD_CHECK(CheckShort(Cat(fields.where(), ": steps"), record.steps.back()));
  }
  return Ok();
}

Status ReadParameters(const JsonFields& fields, RefitRecord& record) {
  SHARD_TRY(const Json* parameters, ReadEntries(fields, "parameters", false));
  const JsonFields values(*parameters, Cat(fields.where(), ": parameters"));
  for (const auto& [key, value] : parameters->items()) {
    SHARD_CHECK(CheckShort(values.where(), key));
    SHARD_TRY(record.parameters[key], ReadShort(values, key.c_str()));
  }
  return Ok();
}

Result<std::optional<TakenText>> ReadTaken(const JsonFields& fields) {
  if (!fields.Has("taken")) return std::optional<TakenText>();
  SHARD_TRY(const Json* value, fields.Object("taken"));
  const JsonFields inner(*value, Cat(fields.where(), ": taken"));
  TakenText taken;
  SHARD_TRY(taken.tokens, inner.Unsigned("tokens"));
  SHARD_TRY(taken.sessions, inner.Unsigned("sessions"));
  SHARD_TRY(taken.of_sessions, inner.Unsigned("of_sessions"));
  return std::optional(taken);
}

Status ReadCalibration(const JsonFields& fields, RefitRecord& record) {
  SHARD_TRY(const Json* texts, ReadEntries(fields, "calibration", true));
  for (const Json& entry : *texts) {
    const std::string where = Cat(fields.where(), ": calibration ", record.calibration.size());
    SHARD_CHECK(CheckObjectAt(where, entry));
    const JsonFields members(entry, where);
    CalibrationText text;
    SHARD_TRY(text.name, ReadShort(members, "name"));
    SHARD_TRY(text.bucket, ReadShort(members, "bucket"));
    SHARD_TRY(text.sha256, ReadHex(members, "sha256", kSha256Digits));
    SHARD_TRY(text.tokens, members.Unsigned("tokens"));
    SHARD_TRY(text.sessions, DigestsField(members, "sessions"));
    SHARD_TRY(text.taken, ReadTaken(members));
    record.calibration.push_back(std::move(text));
  }
  return Ok();
}

Result<double> ReadError(const JsonFields& fields, const char* key) {
  SHARD_TRY(const double error, fields.Number(key));
  if (!std::isfinite(error) || error < 0) return fields.Wrong(key, "a number of at least 0");
  return error;
}

Result<uint32_t> ReadBelow(const JsonFields& fields, const char* key, uint32_t limit) {
  SHARD_TRY(const uint64_t number, fields.Unsigned(key));
  if (number < limit) return static_cast<uint32_t>(number);
  return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected a number below ", limit,
                                   ", found ", number)};
}

Status ReadAccepted(const JsonFields& fields, RefitOutcome& outcome) {
  if (!outcome.accepted) {
    for (const char* key : {"experts", "arrays", "sha256"})
      if (fields.Has(key)) return fields.Wrong(key, "none where nothing was accepted");
    return Ok();
  }
  SHARD_TRY(outcome.sha256, ReadHex(fields, "sha256", kSha256Digits));
  SHARD_TRY(const std::string experts, fields.String("experts"));
  SHARD_TRY(outcome.expert_ids,
            ParseIds(Cat(fields.where(), ": experts"), experts, kMaxExpertsPerLayer - 1));
  if (outcome.expert_ids.empty()) return fields.Wrong("experts", "at least one id");
  SHARD_TRY(const Json* arrays, ReadEntries(fields, "arrays", true));
  for (const Json& name : *arrays) {
    if (!name.is_string()) return fields.Wrong("arrays", "a list of names");
    outcome.arrays.push_back(name.get<std::string>());
    SHARD_CHECK(CheckShort(Cat(fields.where(), ": arrays"), outcome.arrays.back()));
  }
  return Ok();
}

Result<RefitOutcome> ReadOutcome(const std::string& where, const Json& value) {
  SHARD_CHECK(CheckObjectAt(where, value));
  const JsonFields fields(value, where);
  RefitOutcome outcome;
  SHARD_TRY(outcome.layer, ReadBelow(fields, "layer", kMaxLayers));
  SHARD_TRY(outcome.group, ReadBelow(fields, "group", kMaxExpertsPerLayer));
  SHARD_TRY(outcome.accepted, fields.Bool("accepted"));
  SHARD_TRY(outcome.error_before, ReadError(fields, "error_before"));
  SHARD_TRY(outcome.error_after, ReadError(fields, "error_after"));
  SHARD_TRY(outcome.neurons_moved, fields.Unsigned("neurons_moved"));
  SHARD_TRY(const Json* tokens, fields.Array("slot_tokens"));
  if (tokens->size() > kMaxExpertsPerLayer) return fields.Wrong("slot_tokens", "a shorter list");
  for (const Json& count : *tokens) {
    if (!count.is_number_unsigned()) return fields.Wrong("slot_tokens", "a list of counts");
    outcome.slot_tokens.push_back(count.get<uint64_t>());
  }
  SHARD_CHECK(ReadAccepted(fields, outcome));
  return outcome;
}

Status ReadOutcomes(const JsonFields& fields, RefitRecord& record) {
  SHARD_TRY(const Json* outcomes, fields.Array("layers"));
  for (const Json& entry : *outcomes) {
    const std::string where = Cat(fields.where(), ": layers ", record.outcomes.size());
    SHARD_TRY(RefitOutcome outcome, ReadOutcome(where, entry));
    if (!record.outcomes.empty()) {
      const RefitOutcome& last = record.outcomes.back();
      // Find() searches by halves, and a pair that came twice would have two outcomes.
      if (std::pair(outcome.layer, outcome.group) <= std::pair(last.layer, last.group))
        return Error{
            Code::kCorrupt,
            Cat(where, ": expected ascending layers and groups, found layer ", outcome.layer,
                ", group ", outcome.group, " after layer ", last.layer, ", group ", last.group)};
    }
    record.outcomes.push_back(std::move(outcome));
  }
  return Ok();
}

Json OutcomeToJson(const RefitOutcome& outcome) {
  Json entry = Json::object();
  entry["layer"] = outcome.layer;
  entry["group"] = outcome.group;
  entry["accepted"] = outcome.accepted;
  entry["error_before"] = outcome.error_before;
  entry["error_after"] = outcome.error_after;
  entry["neurons_moved"] = outcome.neurons_moved;
  entry["slot_tokens"] = outcome.slot_tokens;
  if (!outcome.accepted) return entry;
  entry["experts"] = FormatIds(outcome.expert_ids);
  entry["arrays"] = outcome.arrays;
  entry["sha256"] = outcome.sha256;
  return entry;
}

bool NotesSessions(const std::vector<CalibrationText>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [](const CalibrationText& text) { return !text.sessions.empty(); });
}

}  // namespace

bool SameTexts(const std::vector<CalibrationText>& recorded,
               const std::vector<CalibrationText>& found) {
  if (NotesSessions(recorded)) return recorded == found;
  return std::equal(recorded.begin(), recorded.end(), found.begin(), found.end(),
                    [](const CalibrationText& a, const CalibrationText& b) {
                      return a.name == b.name && a.bucket == b.bucket && a.sha256 == b.sha256 &&
                             a.tokens == b.tokens && !b.taken;
                    });
}

const RefitOutcome* RefitRecord::Find(uint32_t layer, uint32_t group) const {
  const auto before = [](const RefitOutcome& outcome, std::pair<uint32_t, uint32_t> key) {
    return std::pair(outcome.layer, outcome.group) < key;
  };
  const auto found =
      std::lower_bound(outcomes.begin(), outcomes.end(), std::pair(layer, group), before);
  return found != outcomes.end() && found->layer == layer && found->group == group ? &*found
                                                                                   : nullptr;
}

std::vector<std::string> ParameterOptions(const RefitRecord& record) {
  // Those whose options have other names.
  static const std::map<std::string, std::string> kOptions = {{"fold", "keep-back"},
                                                              {"foreign_weight", "foreign-weight"},
                                                              {"least_tokens", "least-tokens"},
                                                              {"tokens", "most-tokens"},
                                                              {"top_k", "top-k"}};
  std::vector<std::string> options;
  for (const auto& [name, value] : record.parameters) {
    // A digest of how much each session counts, which --foreign-weight and the plan determine.
    if (value == "0" || name == "session_weights") continue;
    const auto known = kOptions.find(name);
    options.push_back(Cat("--", known == kOptions.end() ? name : known->second, " ", value));
  }
  return options;
}

Json RefitToJson(const RefitRecord& record) {
  Json document = Json::object();
  document["format"] = kRefitFormat;
  document["format_version"] = Cat(kRefitMajor, ".0");
  document["model"] = record.model;
  document["plan"] = record.plan;
  document["steps"] = record.steps;
  document["parameters"] = Json::object();
  for (const auto& [key, value] : record.parameters) document["parameters"][key] = value;
  Json& texts = document["calibration"] = Json::array();
  for (const CalibrationText& text : record.calibration) {
    Json entry = Json::object();
    entry["name"] = text.name;
    entry["bucket"] = text.bucket;
    entry["sha256"] = text.sha256;
    entry["tokens"] = text.tokens;
    if (!text.sessions.empty()) entry["sessions"] = FormatDigests(text.sessions);
    if (text.taken)
      entry["taken"] = {{"tokens", text.taken->tokens},
                        {"sessions", text.taken->sessions},
                        {"of_sessions", text.taken->of_sessions}};
    texts.push_back(std::move(entry));
  }
  Json& outcomes = document["layers"] = Json::array();
  for (const RefitOutcome& outcome : record.outcomes) outcomes.push_back(OutcomeToJson(outcome));
  return document;
}

Result<RefitRecord> RefitFromJson(const std::string& where, const Json& document) {
  SHARD_CHECK(CheckObjectAt(where, document));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckFormat(fields, kRefitFormat, kRefitMajor));
  RefitRecord record;
  SHARD_TRY(record.model, ReadHex(fields, "model", kVersionDigits));
  SHARD_TRY(record.plan, ReadHex(fields, "plan", kSha256Digits));
  SHARD_CHECK(ReadSteps(fields, record));
  SHARD_CHECK(ReadParameters(fields, record));
  SHARD_CHECK(ReadCalibration(fields, record));
  SHARD_CHECK(ReadOutcomes(fields, record));
  return record;
}

// The record holds the digest of every accepted file, so its own digest stands for all the bytes.
std::string RefitVersion(const RefitRecord& record) {
  return Sha256Hex(WriteJson(RefitToJson(record))).substr(0, kVersionDigits);
}

}  // namespace moepack
