#include "libshard/refit/refit_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/format_version.h"
#include "libshard/base/text/record.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/stats/session_digest.h"

namespace moepack {
namespace {

constexpr size_t kVersionDigits = 16;

template <auto kMember>
constexpr auto Whole = As<kMember, &JsonFields::Unsigned>;

Result<double> ReadError(const JsonFields& fields, const char* name) {
  SHARD_TRY(const double error, fields.Number(name));
  if (!std::isfinite(error) || error < 0) return fields.Wrong(name, "a number of at least 0");
  return error;
}

template <uint32_t kLimit>
Result<uint32_t> ReadBelow(const JsonFields& fields, const char* name) {
  SHARD_TRY(const uint64_t number, fields.Unsigned(name));
  if (number < kLimit) return static_cast<uint32_t>(number);
  return Error{Code::kCorrupt, Cat(fields.where(), ": ", name, ": expected a number below ", kLimit,
                                   ", found ", number)};
}

Result<std::vector<uint64_t>> ReadSlotTokens(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  if (list->size() > kMaxExpertsPerLayer) return fields.Wrong(name, "a shorter list");
  std::vector<uint64_t> tokens;
  for (const Json& count : *list) {
    if (!count.is_number_unsigned()) return fields.Wrong(name, "a list of counts");
    tokens.push_back(count.get<uint64_t>());
  }
  return tokens;
}

Result<ExpertIds> ReadAcceptedIds(const JsonFields& fields, const char* name) {
  SHARD_TRY(const std::string text, fields.String(name));
  SHARD_TRY(ExpertIds ids,
            ParseIds(Cat(fields.where(), ": ", name), text, kMaxExpertsPerLayer - 1));
  if (ids.empty()) return fields.Wrong(name, "at least one id");
  return ids;
}

constexpr Field<RefitOutcome> kOutcomeFields[] = {
    {"layer", As<&RefitOutcome::layer, ReadBelow<kMaxLayers>>},
    {"group", As<&RefitOutcome::group, ReadBelow<kMaxExpertsPerLayer>>},
    {"accepted", AsFlag<&RefitOutcome::accepted>},
    {"error_before", As<&RefitOutcome::error_before, ReadError>},
    {"error_after", As<&RefitOutcome::error_after, ReadError>},
    {"neurons_moved", Whole<&RefitOutcome::neurons_moved>},
    {"slot_tokens", As<&RefitOutcome::slot_tokens, ReadSlotTokens>},
};

// Of an accepted one only.
constexpr Field<RefitOutcome> kAcceptedFields[] = {
    {"experts", As<&RefitOutcome::expert_ids, ReadAcceptedIds, FormatIds>},
    {"arrays", As<&RefitOutcome::arrays, ReadShortTexts>},
    {"sha256", As<&RefitOutcome::sha256, ReadSha256>},
};

Json OutcomesToJson(const std::vector<RefitOutcome>& outcomes) {
  Json out = Json::array();
  for (const RefitOutcome& outcome : outcomes) {
    out.push_back(ToJson(kOutcomeFields, outcome));
    if (outcome.accepted) WriteFields(kAcceptedFields, outcome, out.back());
  }
  return out;
}

Result<RefitOutcome> ReadOutcome(const std::string& where, const Json& value) {
  SHARD_TRY(RefitOutcome outcome, ReadRecord(kOutcomeFields, where, value));
  const JsonFields fields(value, where);
  if (outcome.accepted) {
    SHARD_CHECK(ReadFields(kAcceptedFields, fields, outcome));
    return outcome;
  }
  for (const auto& field : kAcceptedFields)
    if (fields.Has(field.name)) return fields.Wrong(field.name, "none where nothing was accepted");
  return outcome;
}

Result<std::vector<RefitOutcome>> ReadOutcomes(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  std::vector<RefitOutcome> outcomes;
  for (const Json& entry : *list) {
    const std::string where = Cat(fields.where(), ": ", name, " ", outcomes.size());
    SHARD_TRY(RefitOutcome outcome, ReadOutcome(where, entry));
    if (!outcomes.empty()) {
      const RefitOutcome& last = outcomes.back();
      // Find() searches by halves, and a pair that came twice would have two outcomes.
      if (std::pair(outcome.layer, outcome.group) <= std::pair(last.layer, last.group))
        return Error{
            Code::kCorrupt,
            Cat(where, ": expected ascending layers and groups, found layer ", outcome.layer,
                ", group ", outcome.group, " after layer ", last.layer, ", group ", last.group)};
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

// After the format and its version.
constexpr Field<RefitRecord> kRefitFields[] = {
    {"model", As<&RefitRecord::model, ReadVersionDigits>},
    {"plan", As<&RefitRecord::plan, ReadSha256>},
    {"steps", As<&RefitRecord::steps, ReadShortTexts>},
    {"parameters", As<&RefitRecord::parameters, ReadTextParameters, TextParametersToJson>},
    {"calibration", As<&RefitRecord::calibration, ReadCalibrationTexts, CalibrationTextsToJson>},
    {"layers", As<&RefitRecord::outcomes, ReadOutcomes, OutcomesToJson>},
};

}  // namespace

const RefitOutcome* RefitRecord::Find(uint32_t layer, uint32_t group) const {
  const auto before = [](const RefitOutcome& outcome, std::pair<uint32_t, uint32_t> key) {
    return std::pair(outcome.layer, outcome.group) < key;
  };
  const auto found =
      std::lower_bound(outcomes.begin(), outcomes.end(), std::pair(layer, group), before);
  return found != outcomes.end() && found->layer == layer && found->group == group ? &*found
                                                                                   : nullptr;
}

bool RefitRecord::HasLayer(uint32_t layer) const {
  return std::any_of(outcomes.begin(), outcomes.end(),
                     [&](const RefitOutcome& outcome) { return outcome.layer == layer; });
}

std::vector<std::string> ParameterOptions(const RefitRecord& record) {
  // Those whose options have other names.
  static const std::map<std::string, std::string> kOptions = {{"fold", "keep-back"},
                                                              {"foreign_weight", "foreign-weight"},
                                                              {"least_tokens", "least-tokens"},
                                                              {"tokens", "most-tokens"},
                                                              {"top_k", "top-k"}};
  // A digest of how much each session counts, which --foreign-weight and the plan determine; and
  // what a part says of itself (NamePart).
  static const std::set<std::string> kNoOptions = {"instructions", "moepack", "part",
                                                   "session_weights"};
  std::vector<std::string> options;
  for (const auto& [name, value] : record.parameters) {
    if (value == "0" || kNoOptions.contains(name)) continue;
    const auto known = kOptions.find(name);
    options.push_back(Cat("--", known == kOptions.end() ? name : known->second, " ", value));
  }
  return options;
}

Json RefitToJson(const RefitRecord& record) {
  Json document = Json::object();
  document["format"] = kRefitFormat;
  document["format_version"] = Cat(kRefitMajor, ".0");
  WriteFields(kRefitFields, record, document);
  return document;
}

Result<RefitRecord> RefitFromJson(const std::string& where, const Json& document) {
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckFormat(fields, kRefitFormat, kRefitMajor));
  RefitRecord record;
  SHARD_CHECK(ReadFields(kRefitFields, fields, record));
  return record;
}

// The record holds the digest of every accepted file, so its own digest stands for all the bytes.
std::string RefitVersion(const RefitRecord& record) {
  return Sha256Hex(WriteJson(RefitToJson(record))).substr(0, kVersionDigits);
}

}  // namespace moepack
