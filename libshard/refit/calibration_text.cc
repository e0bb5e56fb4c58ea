#include "libshard/refit/calibration_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/record.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/stats/session_digest.h"

namespace moepack {
namespace {

constexpr size_t kDigitsOfVersion = 16, kDigitsOfSha256 = 64;
// The limits are far above what a refit writes; they keep a hostile record from taking memory.
constexpr size_t kMaxText = 256;          // of a name, bucket, step or parameter
constexpr size_t kMaxEntries = 1u << 16;  // steps, parameters, texts

template <size_t kDigits>
Result<std::string> ReadHex(const JsonFields& fields, const char* name) {
  SHARD_TRY(std::string text, fields.String(name));
  if (IsHex(text, kDigits)) return text;
  return fields.Wrong(name, Cat(kDigits, " hexadecimal digits").c_str());
}

Status CheckShort(const std::string& where, std::string_view text) {
  if (text.size() <= kMaxText) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": expected at most ", kMaxText, " bytes, found ", text.size())};
}

Result<const Json*> ReadEntries(const JsonFields& fields, const char* key, bool array) {
  SHARD_TRY(const Json* entries, array ? fields.Array(key) : fields.Object(key));
  if (entries->size() <= kMaxEntries) return entries;
  return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected at most ", kMaxEntries,
                                   " entries, found ", entries->size())};
}

template <auto kMember>
constexpr auto Count = As<kMember, &JsonFields::Unsigned>;

constexpr Field<TakenText> kTakenFields[] = {
    {"tokens", Count<&TakenText::tokens>},
    {"sessions", Count<&TakenText::sessions>},
    {"of_sessions", Count<&TakenText::of_sessions>},
};

constexpr Field<CalibrationText> kTextFields[] = {
    {"name", As<&CalibrationText::name, ReadShortText>},
    {"bucket", As<&CalibrationText::bucket, ReadShortText>},
    {"sha256", As<&CalibrationText::sha256, ReadSha256>},
    {"tokens", Count<&CalibrationText::tokens>},
    {"sessions", As<&CalibrationText::sessions, DigestsField, FormatDigests>, Presence::kOptional},
    {"taken", AsRecord<&CalibrationText::taken, kTakenFields>, Presence::kOptional},
};

bool NotesSessions(const std::vector<CalibrationText>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [](const CalibrationText& text) { return !text.sessions.empty(); });
}

}  // namespace

Result<std::string> ReadShortText(const JsonFields& fields, const char* key) {
  SHARD_TRY(std::string text, fields.String(key));
  SHARD_CHECK(CheckShort(Cat(fields.where(), ": ", key), text));
  return text;
}

Result<std::vector<std::string>> ReadShortTexts(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, ReadEntries(fields, name, true));
  std::vector<std::string> names;
  for (const Json& entry : *list) {
    if (!entry.is_string()) return fields.Wrong(name, "a list of names");
    names.push_back(entry.get<std::string>());
    SHARD_CHECK(CheckShort(Cat(fields.where(), ": ", name), names.back()));
  }
  return names;
}

Result<std::string> ReadSha256(const JsonFields& fields, const char* name) {
  return ReadHex<kDigitsOfSha256>(fields, name);
}

Result<std::string> ReadVersionDigits(const JsonFields& fields, const char* name) {
  return ReadHex<kDigitsOfVersion>(fields, name);
}

Result<TextParameters> ReadTextParameters(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* values, ReadEntries(fields, name, false));
  const JsonFields inner(*values, Cat(fields.where(), ": ", name));
  TextParameters parameters;
  for (const auto& [key, value] : values->items()) {
    SHARD_CHECK(CheckShort(inner.where(), key));
    SHARD_TRY(parameters[key], ReadShortText(inner, key.c_str()));
  }
  return parameters;
}

Json TextParametersToJson(const TextParameters& parameters) {
  Json out = Json::object();
  for (const auto& [key, value] : parameters) out[key] = value;
  return out;
}

Json CalibrationTextsToJson(const std::vector<CalibrationText>& texts) {
  Json out = Json::array();
  for (const CalibrationText& text : texts) out.push_back(ToJson(kTextFields, text));
  return out;
}

Result<std::vector<CalibrationText>> ReadCalibrationTexts(const JsonFields& fields,
                                                          const char* name) {
  SHARD_TRY(const Json* list, ReadEntries(fields, name, true));
  std::vector<CalibrationText> texts;
  for (const Json& entry : *list) {
    const std::string where = Cat(fields.where(), ": ", name, " ", texts.size());
    SHARD_TRY(CalibrationText text, ReadRecord(kTextFields, where, entry));
    texts.push_back(std::move(text));
  }
  return texts;
}

bool SameTexts(const std::vector<CalibrationText>& recorded,
               const std::vector<CalibrationText>& found) {
  if (NotesSessions(recorded)) return recorded == found;
  return std::equal(recorded.begin(), recorded.end(), found.begin(), found.end(),
                    [](const CalibrationText& a, const CalibrationText& b) {
                      return a.name == b.name && a.bucket == b.bucket && a.sha256 == b.sha256 &&
                             a.tokens == b.tokens && !b.taken;
                    });
}

std::optional<DifferentParameter> FirstDifferentParameter(const TextParameters& wanted,
                                                          const TextParameters& found) {
  const auto valueIn = [](const TextParameters& parameters, const std::string& name) {
    const auto place = parameters.find(name);
    return place == parameters.end() ? std::string("none") : Shown(place->second);
  };
  TextParameters all = wanted;
  all.insert(found.begin(), found.end());
  for (const auto& [name, value] : all) {
    DifferentParameter one{name, valueIn(wanted, name), valueIn(found, name)};
    if (one.wanted != one.found) return one;
  }
  return std::nullopt;
}

}  // namespace moepack
